"""``KafkaStreams``, and all that a process needs to start, change, query and end an application.

``kafka_streams.py`` is the class of users, ``running_application.py`` that of other processes, ``control.py`` has the
calls that the command line makes, too.
"""
