from penstock.tasks.operators import subscriptions

prefix_of = subscriptions._prefix_of
primary_key = subscriptions._primary_key
response_to = subscriptions._response_to
row_key = subscriptions._row_key
value_if_current = subscriptions._value_if_current
