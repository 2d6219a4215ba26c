"""Names of numpy array types, one for each element type. Arrays have one dimension unless a docstring says
otherwise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
UInt8s = npt.NDArray[np.uint8]
UInt32s = npt.NDArray[np.uint32]
UInt64s = npt.NDArray[np.uint64]
