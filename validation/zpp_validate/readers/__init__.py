"""Files of the programs, of peers and of studies, as Python values."""
