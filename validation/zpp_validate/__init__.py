"""What reads and judges the files of the suite, without any of its code: every answer is derived again."""

import os

# Files are only read here, or are new: HDF5 would lock them, which file systems without locks refuse. It reads this
# when h5py is imported.
os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"
