"""Three applications that each have one fault, for people who try to find it with the page alone.

``python -m tests.page.prepared slow-operator`` starts one of them, with Kafka and Ray of its own.
"""
