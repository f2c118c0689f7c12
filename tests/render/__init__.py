"""Output formats: what each writes, and that stored text never becomes anything but text."""
