# cython: language_level=3
"""The part of librdkafka's public header that the binding uses, unchanged since 1.6. See `docs/decisions/0010`."""

from libc.stdint cimport int16_t, int32_t, int64_t

ctypedef void rd_kafka_t
ctypedef void rd_kafka_conf_t
ctypedef void rd_kafka_topic_t
ctypedef void rd_kafka_queue_t
ctypedef void rd_kafka_error_t
ctypedef void rd_kafka_headers_t
ctypedef void rd_kafka_consumer_group_metadata_t
ctypedef void rd_kafka_topic_partition_list_t

ctypedef struct rd_kafka_message_t:
    int err
    rd_kafka_topic_t *rkt
    int32_t partition
    void *payload  # the text of the error, if there is one
    size_t len
    void *key
    size_t key_len
    int64_t offset
    void *_private

ctypedef struct rd_kafka_topic_partition_t:
    char *topic
    int32_t partition
    int64_t offset
    void *metadata  # freed with the list
    size_t metadata_size

ctypedef struct Bytes:
    const char *at
    size_t size

ctypedef union Argument:
    rd_kafka_topic_t *topic
    int flags
    int32_t partition
    int64_t timestamp
    Bytes bytes
    rd_kafka_headers_t *headers
    void *opaque
    char room[64]

ctypedef struct rd_kafka_vu_t:
    int type
    Argument value

ctypedef struct rd_kafka_metadata_topic_t:
    char *topic
    int partition_count
    void *partitions
    int err

ctypedef struct rd_kafka_metadata_t:
    int broker_count
    void *brokers
    int topic_count
    rd_kafka_metadata_topic_t *topics
    int32_t broker
    char *broker_name

ctypedef void (*on_delivery_t)(rd_kafka_t *, const rd_kafka_message_t *, void *) noexcept nogil
ctypedef void (*on_error_t)(rd_kafka_t *, int, const char *, void *) noexcept nogil
ctypedef int (*on_new_t)(rd_kafka_t *, const rd_kafka_conf_t *, void *, char *, size_t) noexcept nogil
ctypedef int (*on_acknowledgement_t)(rd_kafka_t *, rd_kafka_message_t *, void *) noexcept nogil
ctypedef int (*on_request_sent_t)(
    rd_kafka_t *, int, const char *, int32_t, int16_t, int16_t, int32_t, size_t, void *) noexcept nogil
ctypedef int (*on_response_received_t)(
    rd_kafka_t *, int, const char *, int32_t, int16_t, int16_t, int32_t, size_t, int64_t, int, void *) noexcept nogil

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_t:
        pass
    int pthread_create(pthread_t *, const void *, void *(*)(void *) noexcept nogil, void *)
    int pthread_join(pthread_t, void **)

cdef extern nogil:
    rd_kafka_conf_t *rd_kafka_conf_new()
    int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t)
    int rd_kafka_conf_get(const rd_kafka_conf_t *, const char *, char *, size_t *)
    void rd_kafka_conf_destroy(rd_kafka_conf_t *)
    void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, on_delivery_t)
    void rd_kafka_conf_set_error_cb(rd_kafka_conf_t *, on_error_t)
    const rd_kafka_conf_t *rd_kafka_conf(rd_kafka_t *)
    void rd_kafka_conf_set_opaque(rd_kafka_conf_t *, void *)
    int rd_kafka_conf_interceptor_add_on_new(rd_kafka_conf_t *, const char *, on_new_t, void *)
    int rd_kafka_interceptor_add_on_acknowledgement(rd_kafka_t *, const char *, on_acknowledgement_t, void *)
    int rd_kafka_interceptor_add_on_request_sent(rd_kafka_t *, const char *, on_request_sent_t, void *)
    int rd_kafka_interceptor_add_on_response_received(rd_kafka_t *, const char *, on_response_received_t, void *)
    rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t)
    void rd_kafka_destroy(rd_kafka_t *)
    int rd_kafka_poll(rd_kafka_t *, int)
    int rd_kafka_outq_len(rd_kafka_t *)
    int rd_kafka_flush(rd_kafka_t *, int)
    int rd_kafka_purge(rd_kafka_t *, int)
    int rd_kafka_metadata(rd_kafka_t *, int, rd_kafka_topic_t *, const rd_kafka_metadata_t **, int)
    void rd_kafka_metadata_destroy(const rd_kafka_metadata_t *)
    rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *)
    void rd_kafka_topic_destroy(rd_kafka_topic_t *)
    const char *rd_kafka_topic_name(const rd_kafka_topic_t *)
    int rd_kafka_last_error()
    rd_kafka_error_t *rd_kafka_produceva(rd_kafka_t *, const rd_kafka_vu_t *, size_t)
    int rd_kafka_fatal_error(rd_kafka_t *, char *, size_t)
    int rd_kafka_error_code(const rd_kafka_error_t *)
    const char *rd_kafka_error_string(const rd_kafka_error_t *)
    int rd_kafka_error_is_fatal(const rd_kafka_error_t *)
    int rd_kafka_error_is_retriable(const rd_kafka_error_t *)
    int rd_kafka_error_txn_requires_abort(const rd_kafka_error_t *)
    void rd_kafka_error_destroy(rd_kafka_error_t *)
    rd_kafka_error_t *rd_kafka_init_transactions(rd_kafka_t *, int)
    rd_kafka_error_t *rd_kafka_begin_transaction(rd_kafka_t *)
    rd_kafka_error_t *rd_kafka_send_offsets_to_transaction(
        rd_kafka_t *, const rd_kafka_topic_partition_list_t *, const rd_kafka_consumer_group_metadata_t *, int)
    rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *, int)
    rd_kafka_error_t *rd_kafka_abort_transaction(rd_kafka_t *, int)
    rd_kafka_error_t *rd_kafka_consumer_group_metadata_read(
        rd_kafka_consumer_group_metadata_t **, const void *, size_t)
    void rd_kafka_consumer_group_metadata_destroy(rd_kafka_consumer_group_metadata_t *)
    rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int)
    rd_kafka_topic_partition_t *rd_kafka_topic_partition_list_add(
        rd_kafka_topic_partition_list_t *, const char *, int32_t)
    void rd_kafka_topic_partition_list_destroy(rd_kafka_topic_partition_list_t *)
    rd_kafka_headers_t *rd_kafka_headers_new(size_t)
    int rd_kafka_header_add(rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t)
    int rd_kafka_header_get_all(const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *)
    void rd_kafka_headers_destroy(rd_kafka_headers_t *)
    rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *)
    void rd_kafka_queue_destroy(rd_kafka_queue_t *)
    ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t)
    int64_t rd_kafka_message_timestamp(const rd_kafka_message_t *, int *)
    int rd_kafka_message_headers(const rd_kafka_message_t *, rd_kafka_headers_t **)
    void rd_kafka_message_destroy(rd_kafka_message_t *)

cdef enum:
    PRODUCER = 0
    QUEUED_AND_IN_FLIGHT = 3  # the records that a purge drops
    NON_BLOCKING = 4  # the purge does not wait for librdkafka's threads
    PRODUCE_REQUEST = 0
    QUEUE_FULL = -184
    PURGED_FROM_QUEUE = -152
    UNKNOWN_TOPIC = 3

cdef enum:  # kinds of argument of rd_kafka_produceva
    TOPIC = 2
    PARTITION = 3
    VALUE = 4
    KEY = 5
    OPAQUE = 6
    FLAGS = 7
    TIMESTAMP = 8
    HEADERS = 10

cdef enum:  # flags of a message
    COPY = 2
