"""What endpoints are made of: how they are declared, how requests are read and answered."""
