"""A Confluent schema registry: who is asked, and what it answers. The one place that speaks to it. Open to engine, coordinator and stepwell."""
