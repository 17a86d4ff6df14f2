// Stands in for the native module with which VS Code's server writes its logs, and which has to be compiled.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const NAMES = ["trace", "debug", "info", "warning", "error", "critical", "off"];
const INFO = 2;
const loggers = new Set();
let everyLevel = INFO;

/** A log file, to which every line is written at once. One that is full moves aside: `name.1.log` is the newest. */
class Logger {
  constructor(_kind, _name, file, most, count) {
    this.file = file;
    this.most = most;
    this.count = count;
    this.level = everyLevel;
    this.pattern = "[%Y-%m-%d %H:%M:%S.%e] [%l] %v";
    this.open("a");
    loggers.add(this);
  }

  trace(message) {
    this.log(0, message);
  }

  debug(message) {
    this.log(1, message);
  }

  info(message) {
    this.log(2, message);
  }

  warn(message) {
    this.log(3, message);
  }

  error(message) {
    this.log(4, message);
  }

  critical(message) {
    this.log(5, message);
  }

  getLevel() {
    return this.level;
  }

  setLevel(level) {
    this.level = level;
  }

  setPattern(pattern) {
    this.pattern = pattern;
  }

  /** From now on messages are written as they are, without even an end of line. */
  clearFormatters() {
    this.pattern = undefined;
  }

  flush() {}

  drop() {
    loggers.delete(this);
    if (this.handle !== undefined) {
      fs.closeSync(this.handle);
      this.handle = undefined;
    }
  }

  log(level, message) {
    if (level < this.level || this.handle === undefined) {
      return;
    }
    const text = this.pattern === undefined ? String(message) : `${filled(this.pattern, level, message)}\n`;
    const bytes = Buffer.from(text);
    try {
      if (this.size > 0 && this.size + bytes.length > this.most) {
        this.rotate();
      }
      this.size += fs.writeSync(this.handle, bytes);
    } catch {
      // A full disk, or a directory that was removed: nobody can be told, and the server has to go on.
    }
  }

  rotate() {
    fs.closeSync(this.handle);
    this.handle = undefined;
    try {
      for (let number = this.count; number > 0; number -= 1) {
        if (fs.existsSync(this.numbered(number - 1))) {
          fs.renameSync(this.numbered(number - 1), this.numbered(number));
        }
      }
    } finally {
      this.open("w");
    }
  }

  open(flags) {
    this.handle = fs.openSync(this.file, flags);
    this.size = fs.fstatSync(this.handle).size;
  }

  numbered(number) {
    const { dir, name, ext } = path.parse(this.file);
    return number === 0 ? this.file : path.join(dir, `${name}.${number}${ext}`);
  }
}

/** A line of the log, as its pattern wants it. */
function filled(pattern, level, message) {
  const now = new Date();
  const two = (number) => String(number).padStart(2, "0");
  const parts = {
    Y: () => now.getFullYear(),
    m: () => two(now.getMonth() + 1),
    d: () => two(now.getDate()),
    H: () => two(now.getHours()),
    M: () => two(now.getMinutes()),
    S: () => two(now.getSeconds()),
    e: () => String(now.getMilliseconds()).padStart(3, "0"),
    l: () => NAMES[level],
    v: () => message,
    "%": () => "%",
  };
  return pattern.replace(/%([YmdHMSelv%])/g, (_, letter) => parts[letter]());
}

async function created(kind, name, file, most, count) {
  await fs.promises.mkdir(path.dirname(file), { recursive: true });
  return new Logger(kind, name, file, most, count);
}

exports.version = 0;
exports.Logger = Logger;
exports.setLevel = (level) => {
  everyLevel = level;
  for (const logger of loggers) {
    logger.setLevel(level);
  }
};
exports.setFlushOn = () => {};
exports.createRotatingLogger = (...rest) => created("rotating", ...rest);
exports.createAsyncRotatingLogger = (...rest) => created("rotating_async", ...rest);
