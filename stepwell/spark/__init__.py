"""The Spark session, and the archive of the JVM's classes."""
