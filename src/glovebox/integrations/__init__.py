"""Classes and functions of this project for frameworks of others."""
