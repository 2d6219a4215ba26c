"""Messages <-> Arrow rows, in every format and without Kafka or Spark. Open to engine, coordinator and stepwell.

`table.py` has the descriptor of each format. Nothing is imported here, because what needs one module shall not load the formats."""

from base.pandas_later import leave_pandas_out

leave_pandas_out()  # before any module makes an array
