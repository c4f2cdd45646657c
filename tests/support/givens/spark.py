"""`spark`: a session on this machine."""

import atexit

from mqstore.tools.spark.session import local_session

spark = local_session()
atexit.register(spark.stop)
