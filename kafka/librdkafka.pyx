# cython: language_level=3, boundscheck=False, wraparound=False
"""penstock's own binding of the two calls that every record passes through: send, and fetch into columns.

confluent-kafka makes an object, some attribute calls and a Python frame for each record; this makes only columns. It
calls the same librdkafka that confluent-kafka has loaded (see ``binding.py``). It is optional: if penstock was
installed without a C compiler, ``producer.py`` and ``fetcher.py`` do the same in Python.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.long cimport PyLong_AsLongLong
from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.stdlib cimport atof, free, malloc, realloc
from libc.string cimport memcpy, strdup
from posix.unistd cimport usleep

from confluent_kafka import Consumer, KafkaError, KafkaException

from penstock.common.ids import TopicPartition
from penstock.common.measures import LATENCY_BOUNDS_MS, Distribution, Sent
from penstock.common.records import RecordBatch
from penstock.kafka.fetcher import Event
from penstock.kafka.contracts import RefusedRecord
from penstock.kafka.refusals import OF_RECORD, check_headers, late, not_bytes

cdef enum:
    SENT_NOW = -1  # as in penstock.common.records
    FULL_QUEUE_WAIT_MS = 10
    SIGNALS_EACH_US = 100_000  # longest delay of Ctrl-C
    ERROR_ROOM = 512
    MOST_PARTITIONS = 1_000_000  # of a topic; no cluster has so many
    MOST_BUCKETS = 32
    MOST_LINGER_MS = 60_000  # of librdkafka itself: see Lingering
    MOST_PAUSE_US = 20_000  # longest wait of a close for the thread
    RECORD_OVERHEAD = 8 + 8 + 4  # as in penstock.kafka.counting


cdef extern from *:
    """
    #include <stdint.h>
    #include <time.h>
    #ifndef CLOCK_REALTIME_COARSE
    #define CLOCK_REALTIME_COARSE CLOCK_REALTIME
    #endif
    static inline int64_t wall_ms(void) {
        struct timespec now;
        /* Costs a fifth of the exact clock, and is up to 4 ms late. */
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
        return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    static inline int64_t monotonic_us(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
    }
    """
    int64_t wall_ms() nogil
    int64_t monotonic_us() nogil


# ---- the producer ----

cdef struct Refused:  # a record that a broker has refused for what it is
    char *topic
    int32_t partition
    char *key
    ssize_t key_size
    char *value
    ssize_t value_size
    Refused *next


cdef extern from *:
    """
    #define read_count(count) __atomic_load_n(count, __ATOMIC_ACQUIRE)
    #define write_count(count, value) __atomic_store_n(count, value, __ATOMIC_RELEASE)
    #define increase_count(count) __atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL)
    #define push_refused(first, node) do { \\
        (node)->next = __atomic_load_n(first, __ATOMIC_RELAXED); \\
    } while (!__atomic_compare_exchange_n(first, &(node)->next, node, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    #define take_all_refused(first) __atomic_exchange_n(first, NULL, __ATOMIC_ACQUIRE)
    """
    int64_t read_count(int64_t *) nogil
    void write_count(int64_t *, int64_t) nogil
    int64_t increase_count(int64_t *) nogil
    void push_refused(Refused **, Refused *) nogil
    Refused *take_all_refused(Refused **) nogil


cdef struct Failure:
    int64_t reports
    int64_t code  # written last: a thread that sees it sees the rest, too
    char *topic
    int32_t partition
    char *key
    ssize_t key_size
    Refused *refused  # last reported first


cdef char *_copied(const void *data, size_t size) noexcept nogil:
    """Returns a copy of ``data``, NULL of NULL."""
    if data == NULL:
        return NULL
    cdef char *copy = <char *> malloc(size + 1)
    if copy != NULL:
        memcpy(copy, data, size)
    return copy


cdef int64_t[32] _of_record  # the codes of OF_RECORD, for a callback that knows no Python
cdef int _of_record_count = 0
assert len(OF_RECORD) <= 32
for _code in OF_RECORD:
    _of_record[_of_record_count] = _code
    _of_record_count += 1


cdef bint _is_of_record(int64_t code) noexcept nogil:
    cdef int each
    for each in range(_of_record_count):
        if _of_record[each] == code:
            return True
    return False


cdef void _keep_refused(const rd_kafka_message_t *message, Refused **first) noexcept nogil:
    cdef Refused *refused = <Refused *> malloc(sizeof(Refused))
    if refused == NULL:
        return
    refused.topic = strdup(rd_kafka_topic_name(message.rkt))
    refused.partition = message.partition
    refused.key = _copied(message.key, message.key_len)
    refused.key_size = message.key_len
    refused.value = _copied(message.payload, message.len)
    refused.value_size = message.len
    push_refused(first, refused)


cdef void _free_refused(Refused *refused) noexcept nogil:
    cdef Refused *next
    while refused != NULL:
        next = refused.next
        free(refused.topic)
        free(refused.key)
        free(refused.value)
        free(refused)
        refused = next


cdef void _on_failed_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) noexcept nogil:
    """Called by the thread that polls: the sender's, or that of :class:`Lingering`."""
    cdef Failure *failure = <Failure *> opaque
    if _is_of_record(message.err):
        _keep_refused(message, &failure.refused)
    # The first failure is the cause; later ones are its consequences.
    if message.err == 0 or increase_count(&failure.reports) != 0:
        return
    failure.topic = strdup(rd_kafka_topic_name(message.rkt))
    failure.partition = message.partition
    if message.key != NULL:
        failure.key = <char *> malloc(message.key_len + 1)
    if failure.key != NULL:
        failure.key_size = message.key_len
        memcpy(failure.key, message.key, message.key_len)
    write_count(&failure.code, message.err)


cdef struct Lane:  # what was sent to one partition between two marks
    int64_t *delivered  # by all lanes of the same mark
    int64_t end  # the offset after the last delivered record; 0 while there is none
    Lane *older  # the next one in the mark's list


cdef int _on_acknowledgement(rd_kafka_t *client, rd_kafka_message_t *message, void *opaque) noexcept nogil:
    """Called by librdkafka's own threads, for each record. Refused ones are `_on_failed_delivery`'s."""
    cdef Lane *lane = <Lane *> message._private
    if message.err == 0 and lane != NULL:
        # A broker that has a batch already does not report its offsets, and librdkafka numbers its records from -1: so
        # an end never decreases. While the leader moves, two threads may be here, and the lower end may win: then the
        # end is only too low.
        if message.offset >= lane.end:
            lane.end = message.offset + 1
        increase_count(lane.delivered)  # after the end: a thread that sees the count sees the end, too
    return 0


cdef int _on_new(rd_kafka_t *client, const rd_kafka_conf_t *conf, void *opaque, char *error, size_t room) noexcept nogil:
    cdef int code = rd_kafka_interceptor_add_on_acknowledgement(client, b"penstock", _on_acknowledgement, NULL)
    if code == 0:
        code = rd_kafka_interceptor_add_on_request_sent(client, b"penstock", _on_request_sent, opaque)
    if code == 0:
        code = rd_kafka_interceptor_add_on_response_received(client, b"penstock", _on_response_received, opaque)
    return code


# Replaces librdkafka's own ``linger.ms``. While the last request of a partition has no answer, an idempotent producer
# sends no more of it, but polls without a pause as long as a record is older than ``linger.ms`` (docs/decisions/0009).
# That takes a whole core, which a broker on the same machine then lacks. So librdkafka's own time is set out of reach,
# and waiting records are flushed here, when all requests have their answers.

cdef struct Lingering:
    rd_kafka_t *client
    pthread_t thread
    int64_t linger_us
    int64_t requests  # with records, that were sent
    int64_t answered  # of these
    int64_t lost  # of these, with their connection: no answer will arrive
    int64_t ending


cdef int _on_request_sent(
    rd_kafka_t *client, int socket, const char *broker, int32_t broker_id, int16_t kind, int16_t version,
    int32_t correlation, size_t size, void *opaque
) noexcept nogil:
    if kind == PRODUCE_REQUEST:
        increase_count(&(<Lingering *> opaque).requests)
    return 0


cdef int _on_response_received(
    rd_kafka_t *client, int socket, const char *broker, int32_t broker_id, int16_t kind, int16_t version,
    int32_t correlation, size_t size, int64_t round_trip_us, int error, void *opaque
) noexcept nogil:
    if kind == PRODUCE_REQUEST:
        increase_count(&(<Lingering *> opaque).answered)
    return 0


cdef bint _is_answered(Lingering *lingering) noexcept nogil:
    return read_count(&lingering.requests) - read_count(&lingering.answered) <= read_count(&lingering.lost)


cdef void _send_waiting(Lingering *lingering) noexcept nogil:
    """Have librdkafka send the waiting records. It does so during a flush; its thread may take a while to wake up, or
    must register a partition with the transaction first."""
    cdef int64_t begin_us = monotonic_us(), requests = read_count(&lingering.requests)
    cdef bint is_answered = _is_answered(lingering)
    rd_kafka_flush(lingering.client, 1)
    while is_answered and read_count(&lingering.requests) == requests and rd_kafka_outq_len(lingering.client) > 0:
        if monotonic_us() - begin_us > lingering.linger_us or read_count(&lingering.ending) != 0:
            break
        rd_kafka_flush(lingering.client, 1)


cdef void *_linger(void *given) noexcept nogil:
    cdef Lingering *lingering = <Lingering *> given
    cdef int64_t waited_us, last_us = monotonic_us()
    while read_count(&lingering.ending) == 0:
        waited_us = monotonic_us() - last_us
        if rd_kafka_outq_len(lingering.client) == 0:
            write_count(&lingering.lost, read_count(&lingering.requests) - read_count(&lingering.answered))
            last_us += waited_us
            usleep(min(lingering.linger_us, MOST_PAUSE_US))
        elif waited_us < lingering.linger_us:
            usleep(min(lingering.linger_us - waited_us, MOST_PAUSE_US))
        elif not _is_answered(lingering) and waited_us < 2 * lingering.linger_us:
            usleep(1000)
        else:
            _send_waiting(lingering)
            last_us = monotonic_us()
    return NULL


@cython.no_gc_clear  # librdkafka counts in its lanes as long as there is a client
cdef class Mark:
    """See ``contracts.Mark``. The last mark of a sender is open: records that are sent belong to it."""

    cdef int64_t _sent
    cdef int64_t _delivered
    cdef Lane *_lanes
    cdef list _partitions  # of the lanes, oldest first
    cdef Mark _before

    def __dealloc__(self):
        cdef Lane *lane
        while self._lanes != NULL:
            lane, self._lanes = self._lanes, self._lanes.older
            free(lane)

    cdef Lane *_add(self, topic, int32_t partition) except NULL:
        cdef Lane *lane = <Lane *> malloc(sizeof(Lane))
        if lane == NULL:
            raise MemoryError()
        lane.delivered, lane.end, lane.older = &self._delivered, 0, self._lanes
        self._lanes = lane
        self._partitions.append(TopicPartition(topic, partition))
        return lane

    def delivered(self):
        """See the contract."""
        if self._before is not None:
            if not self._before.delivered():
                return False
            self._before = None
        return read_count(&self._delivered) == self._sent

    def ends(self):
        """See the contract."""
        cdef Lane *lane = self._lanes
        cdef dict ends = {}
        read_count(&self._delivered)
        for partition in reversed(self._partitions):
            if lane.end > 0 and partition.partition >= 0:
                ends[partition] = lane.end
            lane = lane.older
        return ends


@cython.no_gc_clear
cdef class Topic:
    """librdkafka's handle of a topic, and the lanes of its partitions since the last mark. The first lane is that of
    records for which librdkafka chooses the partition."""

    cdef rd_kafka_topic_t *handle
    cdef Lane **lanes
    cdef ssize_t room

    def __dealloc__(self):
        free(self.lanes)

    cdef inline Lane *lane(self, name, int32_t partition, Mark mark) except NULL:
        cdef ssize_t at = partition + 1 if -1 <= partition < MOST_PARTITIONS else 0
        if at < self.room and self.lanes[at] != NULL:
            return self.lanes[at]
        return self._new_lane(name, at, mark)

    cdef Lane *_new_lane(self, name, ssize_t at, Mark mark) except NULL:
        cdef ssize_t index, room = at + 1
        if room > self.room:
            grown = <Lane **> realloc(self.lanes, room * sizeof(void *))
            if grown == NULL:
                raise MemoryError()
            for index in range(self.room, room):
                grown[index] = NULL
            self.lanes, self.room = grown, room
        self.lanes[at] = mark._add(name, at - 1)
        return self.lanes[at]

    cdef void forget_lanes(self):
        cdef ssize_t index
        for index in range(self.room):
            self.lanes[index] = NULL


@cython.no_gc_clear  # closing needs the topics
cdef class Sender:
    """An idempotent producer.

    ``refused(code, text, topic, partition, key)`` makes the exception for a refusal by the broker, or by librdkafka. If
    the topic is None, the producer itself has failed.
    """

    cdef rd_kafka_t *_client
    cdef rd_kafka_vu_t _arguments[8]
    cdef dict _topics
    cdef object _refused
    cdef Failure _failure
    cdef Lingering _lingering
    cdef Mark _open  # the mark of records that are sent now
    cdef bint _withheld

    def __init__(self, settings, refused):
        cdef char error[ERROR_ROOM]
        cdef rd_kafka_conf_t *configuration = rd_kafka_conf_new()
        for name, value in settings.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            code = rd_kafka_conf_set(configuration, name.encode(), text.encode(), error, ERROR_ROOM)
            if code != 0:
                rd_kafka_conf_destroy(configuration)
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, error.decode()))
        self._lingering.linger_us = max(1000, <int64_t> (1000 * _number(configuration, b"linger.ms")))
        out_of_reach_ms = min(MOST_LINGER_MS, _number(configuration, b"message.timeout.ms") // 2 or MOST_LINGER_MS)
        rd_kafka_conf_set(configuration, b"linger.ms", b"%d" % out_of_reach_ms, error, ERROR_ROOM)
        rd_kafka_conf_set(configuration, b"delivery.report.only.error", b"true", error, ERROR_ROOM)
        rd_kafka_conf_set_dr_msg_cb(configuration, _on_failed_delivery)
        rd_kafka_conf_set_opaque(configuration, &self._failure)
        # Successes are counted in librdkafka's threads. As reports they would come to the sender's thread, which would
        # have to free each record's memory, too.
        rd_kafka_conf_interceptor_add_on_new(configuration, b"penstock", _on_new, &self._lingering)
        self._client = rd_kafka_new(PRODUCER, configuration, error, ERROR_ROOM)
        if self._client == NULL:
            rd_kafka_conf_destroy(configuration)
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, error.decode()))
        self._lingering.client = self._client
        if pthread_create(&self._lingering.thread, NULL, _linger, &self._lingering) != 0:
            rd_kafka_destroy(self._client)
            self._client = NULL
            raise RuntimeError("no thread can be started for a producer")
        self._topics = {}
        self._refused = refused
        self._begin_mark(None)
        for index, kind in enumerate((TOPIC, PARTITION, FLAGS, KEY, VALUE, TIMESTAMP, OPAQUE, HEADERS)):
            self._arguments[index].type = kind
        self._arguments[2].value.flags = COPY

    def __dealloc__(self):
        self._end(0)
        self._forget_failure()

    def send(self, topic, key, value, timestamp, headers=None, int32_t partition=-1):
        """See ``RecordProducer.send``. librdkafka reads time 0 as "now", so such a record goes out with 1 ms."""
        self._send(topic, key, value, PyLong_AsLongLong(timestamp), headers, partition)

    def counting(self):
        """See ``RecordProducer.counting``."""
        return CountingSender(self)

    cdef int _send(self, topic, key, value, int64_t at, headers, int32_t partition) except -1:
        cdef rd_kafka_vu_t *arguments = self._arguments
        cdef rd_kafka_error_t *error
        cdef object found = self._topics.get(topic)
        cdef Topic known = <Topic> (self._topic(topic) if found is None else found)
        arguments[0].value.topic = known.handle
        arguments[1].value.partition = partition
        arguments[3].value.bytes = _bytes(key, topic, "key")
        arguments[4].value.bytes = _bytes(value, topic, "value")
        arguments[5].value.timestamp = 0 if at == SENT_NOW else at if at != 0 else 1
        arguments[6].value.opaque = known.lane(topic, partition, self._open)
        while True:
            if self._withheld:
                self._refuse(topic, partition, key)
            arguments[7].value.headers = _headers_of(headers, topic) if headers else NULL
            # On success librdkafka owns the headers.
            error = rd_kafka_produceva(self._client, arguments, 8 if headers else 7)
            if error == NULL:
                self._open._sent += 1
                return 0
            if arguments[7].value.headers != NULL:
                rd_kafka_headers_destroy(arguments[7].value.headers)
            self._wait_if_full(error, topic, partition, key)

    cdef int _wait_if_full(self, rd_kafka_error_t *error, topic, int32_t partition, key) except -1:
        """Wait until there may be room, or raise the exception for ``error``."""
        cdef int code = rd_kafka_error_code(error)
        text = rd_kafka_error_string(error).decode(errors="replace")
        rd_kafka_error_destroy(error)
        if code == QUEUE_FULL:
            return self._poll(FULL_QUEUE_WAIT_MS)
        self._raise_failure()  # raises the cause, if the producer cannot continue
        raise self._refused(code, text, topic, partition, key)

    cdef int _refuse(self, topic, int32_t partition, key) except -1:
        """Treat the record as one that was purged after it was sent: ``poll`` reports it, even if the caller swallows
        the exception."""
        cdef Failure *failure = &self._failure
        cdef bytes name = topic.encode()
        if increase_count(&failure.reports) == 0:
            failure.topic, failure.partition = strdup(name), partition
            write_count(&failure.code, PURGED_FROM_QUEUE)
        raise self._refused(PURGED_FROM_QUEUE, None, topic, partition, key)

    def poll(self):
        """See ``RecordProducer.poll``."""
        self._poll(0)

    def flush(self, double timeout_s):
        """See ``RecordProducer.flush``."""
        cdef int64_t end_us = monotonic_us() + <int64_t> (timeout_s * 1000000)
        cdef int left
        while True:
            self._check_open()  # a signal handler may have closed it
            with nogil:
                left = self._flush(min(end_us, monotonic_us() + SIGNALS_EACH_US))
            PyErr_CheckSignals()
            if left == 0 or monotonic_us() >= end_us:
                break
        self._raise_failure()
        return left == 0

    cdef int _flush(self, int64_t end_us) noexcept nogil:
        cdef int left
        rd_kafka_poll(self._client, 0)
        while True:
            left = rd_kafka_outq_len(self._client)
            if left == 0 or monotonic_us() >= end_us:
                return left
            if _is_answered(&self._lingering):
                rd_kafka_flush(self._client, 1)
            else:
                rd_kafka_poll(self._client, 1)

    def give_up(self, double timeout_s):
        """See ``RecordProducer.give_up``."""
        cdef int code, timeout_ms = <int> (timeout_s * 1000)
        cdef Topic topic
        self._check_open()
        with nogil:
            rd_kafka_purge(self._client, QUEUED_AND_IN_FLIGHT)
            code = rd_kafka_flush(self._client, timeout_ms)
        if code == 0:  # nothing counts in the marks any more
            for topic in self._topics.values():
                topic.forget_lanes()
            self._begin_mark(None)
            self._forget_failure()
        return code == 0

    def withhold(self):
        """See ``RecordProducer.withhold``. Keeps the GIL: no other thread sends, or closes the client, meanwhile."""
        self._withheld = True
        if self._client != NULL:
            rd_kafka_purge(self._client, QUEUED_AND_IN_FLIGHT | NON_BLOCKING)

    def resume(self):
        """See ``RecordProducer.resume``."""
        self._withheld = False

    def mark(self):
        """See ``RecordProducer.mark``."""
        cdef Mark closed = self._open
        cdef Topic topic
        self._check_open()
        for topic in self._topics.values():
            topic.forget_lanes()
        self._begin_mark(closed)
        return closed

    cdef void _begin_mark(self, Mark before):
        # Each mark keeps the one before until that is delivered: librdkafka counts in them.
        self._open = Mark()
        self._open._partitions = []
        self._open._before = before

    def count_partitions(self, topic, double timeout_s):
        """Returns the number of partitions of ``topic``; 0 if the broker does not know it. Raises KafkaException."""
        cdef const rd_kafka_metadata_t *metadata = NULL
        cdef int code, count = 0, timeout_ms = <int> (timeout_s * 1000)
        cdef rd_kafka_topic_t *handle = self._topic(topic).handle
        with nogil:
            code = rd_kafka_metadata(self._client, 0, handle, &metadata, timeout_ms)
        if code == 0:
            if metadata.topic_count > 0:
                code, count = metadata.topics[0].err, metadata.topics[0].partition_count
            rd_kafka_metadata_destroy(metadata)
        if code == UNKNOWN_TOPIC:
            return 0
        if code != 0:
            raise KafkaException(KafkaError(code))
        return count

    def close(self):
        """See ``RecordProducer.close``."""
        self._end(1000)

    # Transactions: the calls and errors of confluent_kafka.Producer.

    def init_transactions(self, double timeout_s):
        """``rd_kafka_init_transactions``."""
        cdef int timeout_ms = <int> (timeout_s * 1000)
        cdef rd_kafka_error_t *error
        self._check_open()
        with nogil:
            error = rd_kafka_init_transactions(self._client, timeout_ms)
        _raise_error(error)

    def begin_transaction(self):
        """``rd_kafka_begin_transaction``. Undelivered records of an aborted transaction are forgotten."""
        cdef rd_kafka_error_t *error
        cdef Topic topic
        self._check_open()
        with nogil:
            error = rd_kafka_begin_transaction(self._client)
        _raise_error(error)
        if self._failure.code != 0:
            for topic in self._topics.values():
                topic.forget_lanes()
            self._begin_mark(None)
            self._forget_failure()

    def send_offsets_to_transaction(self, offsets, bytes group_metadata, double timeout_s):
        """``rd_kafka_send_offsets_to_transaction``; ``offsets``: tuples (topic, partition, offset, metadata)."""
        cdef int timeout_ms = <int> (timeout_s * 1000)
        cdef rd_kafka_consumer_group_metadata_t *metadata = NULL
        cdef rd_kafka_topic_partition_list_t *partitions
        cdef rd_kafka_error_t *error
        self._check_open()
        _raise_error(rd_kafka_consumer_group_metadata_read(
            &metadata, PyBytes_AS_STRING(group_metadata), PyBytes_GET_SIZE(group_metadata)
        ))
        partitions = rd_kafka_topic_partition_list_new(len(offsets))
        try:
            for topic, partition, offset, note in offsets:
                _add_offset(partitions, topic.encode(), partition, offset, note.encode())
            with nogil:
                error = rd_kafka_send_offsets_to_transaction(self._client, partitions, metadata, timeout_ms)
            _raise_error(error)
        finally:
            rd_kafka_topic_partition_list_destroy(partitions)
            rd_kafka_consumer_group_metadata_destroy(metadata)

    def commit_transaction(self, double timeout_s):
        """``rd_kafka_commit_transaction``."""
        cdef int timeout_ms = <int> (timeout_s * 1000)
        cdef rd_kafka_error_t *error
        self._check_open()
        with nogil:
            error = rd_kafka_commit_transaction(self._client, timeout_ms)
        _raise_error(error)

    def abort_transaction(self, double timeout_s):
        """``rd_kafka_abort_transaction``."""
        cdef int timeout_ms = <int> (timeout_s * 1000)
        cdef rd_kafka_error_t *error
        self._check_open()
        with nogil:
            error = rd_kafka_abort_transaction(self._client, timeout_ms)
        _raise_error(error)

    cdef void _forget_failure(self):
        free(self._failure.topic)
        free(self._failure.key)
        self._failure.code = self._failure.reports = 0
        self._failure.topic = self._failure.key = NULL
        self._failure.key_size = 0
        _free_refused(take_all_refused(&self._failure.refused))

    def take_refused(self):
        """See ``RecordProducer.take_refused``."""
        cdef Refused *first = take_all_refused(&self._failure.refused)
        cdef Refused *refused = first
        cdef list taken = []
        while refused != NULL:
            taken.append(
                RefusedRecord(
                    refused.topic.decode(),
                    refused.partition,
                    None if refused.key == NULL else PyBytes_FromStringAndSize(refused.key, refused.key_size),
                    None if refused.value == NULL else PyBytes_FromStringAndSize(refused.value, refused.value_size),
                )
            )
            refused = refused.next
        _free_refused(first)
        taken.reverse()
        return taken

    cdef Topic _topic(self, name):
        self._check_open()
        cdef Topic topic = self._topics.get(name)
        if topic is None:
            if not isinstance(name, str):
                raise TypeError(f"the name of a topic must be a string, not {name!r}")
            topic = Topic()
            topic.handle = rd_kafka_topic_new(self._client, name.encode(), NULL)
            if topic.handle == NULL:
                raise self._refused(rd_kafka_last_error(), None, name, -1, None)
            self._topics[name] = topic
        return topic

    cdef int _poll(self, int timeout_ms) except -1:
        self._check_open()
        with nogil:
            rd_kafka_poll(self._client, timeout_ms)
        PyErr_CheckSignals()
        self._raise_failure()
        return 0

    cdef int _check_open(self) except -1:
        if self._client == NULL:
            raise RuntimeError("the producer is closed")
        return 0

    cdef int _raise_failure(self) except -1:
        cdef Failure *failure = &self._failure
        cdef char text[ERROR_ROOM]
        # A fatal error of an idempotent producer is the cause of all later failures.
        cdef int fatal = rd_kafka_fatal_error(self._client, text, ERROR_ROOM)
        if fatal != 0:
            raise self._refused(fatal, text.decode(errors="replace"), None, -1, None)
        if read_count(&failure.code) != 0:
            key = None if failure.key == NULL else PyBytes_FromStringAndSize(failure.key, failure.key_size)
            topic = None if failure.topic == NULL else failure.topic.decode()
            raise late(self._refused(<int> failure.code, None, topic, failure.partition, key))
        return 0

    cdef void _end(self, int timeout_ms):
        cdef rd_kafka_t *client = self._client
        cdef Topic topic
        if client == NULL:
            return
        self._client = NULL
        for topic in self._topics.values():
            rd_kafka_topic_destroy(topic.handle)
        self._topics.clear()  # a later send looks up its topic, and finds the producer closed
        with nogil:
            write_count(&self._lingering.ending, 1)
            pthread_join(self._lingering.thread, NULL)
            rd_kafka_purge(client, QUEUED_AND_IN_FLIGHT)
            rd_kafka_flush(client, timeout_ms)
            rd_kafka_destroy(client)


cdef double _number(const rd_kafka_conf_t *configuration, const char *name) noexcept:
    """Returns the value of ``name`` in ``configuration``; 0.0 if there is none."""
    cdef char text[64]
    cdef size_t room = 64
    return atof(text) if rd_kafka_conf_get(configuration, name, text, &room) == 0 else 0.0


cdef int _raise_error(rd_kafka_error_t *error) except -1:
    """Raise the exception of confluent-kafka for ``error``, unless it is NULL."""
    if error == NULL:
        return 0
    message = KafkaError(
        rd_kafka_error_code(error), rd_kafka_error_string(error).decode(errors="replace"),
        bool(rd_kafka_error_is_fatal(error)), bool(rd_kafka_error_is_retriable(error)),
        bool(rd_kafka_error_txn_requires_abort(error)),
    )
    rd_kafka_error_destroy(error)
    raise KafkaException(message)


cdef int _add_offset(
    rd_kafka_topic_partition_list_t *partitions, bytes topic, int32_t partition, int64_t offset, bytes note
) except -1:
    cdef rd_kafka_topic_partition_t *added = rd_kafka_topic_partition_list_add(partitions, topic, partition)
    added.offset = offset
    if note:
        # With its terminating zero, as confluent-kafka commits it.
        added.metadata = strdup(note)
        if added.metadata == NULL:
            raise MemoryError()
        added.metadata_size = len(note) + 1
    return 0


cdef inline Bytes _bytes(object given, topic, str part) except *:
    cdef Bytes found
    if given is None:
        found.at, found.size = NULL, 0
    elif isinstance(given, bytes):
        found.at, found.size = PyBytes_AS_STRING(given), PyBytes_GET_SIZE(given)
    else:
        raise not_bytes(part, given, topic)
    return found


cdef rd_kafka_headers_t *_headers_of(object pairs, topic) except NULL:
    check_headers(pairs, topic)
    cdef rd_kafka_headers_t *headers = rd_kafka_headers_new(len(pairs))
    cdef bytes name
    cdef Bytes value
    try:
        for key, given in pairs:
            name, value = key.encode(), _bytes(given, topic, "header")
            rd_kafka_header_add(headers, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name), value.at, value.size)
    except BaseException:
        rd_kafka_headers_destroy(headers)
        raise
    return headers


cdef class CountingSender:
    """See ``contracts.CountingSender``. Exact, and free: a handful of instructions per record."""

    cdef Sender _sender
    cdef int64_t _records, _bytes, _total_ms, _lowest_ms, _highest_ms
    cdef int64_t _counts[MOST_BUCKETS]
    cdef int64_t _bounds[MOST_BUCKETS]
    cdef int _buckets  # without the one above all bounds

    def __init__(self, Sender sender):
        self._sender = sender
        self._buckets = len(LATENCY_BOUNDS_MS)
        assert self._buckets < MOST_BUCKETS
        for index, bound in enumerate(LATENCY_BOUNDS_MS):
            self._bounds[index] = bound
        self._lowest_ms = self._highest_ms = -1

    def send(self, topic, key, value, timestamp, headers=None, int32_t partition=-1):
        """See the contract."""
        cdef int64_t at = PyLong_AsLongLong(timestamp)
        self._sender._send(topic, key, value, at, headers, partition)
        self._records += 1
        # The types are right, or the send would have failed.
        self._bytes += RECORD_OVERHEAD + len(<str> topic)
        if key is not None:
            self._bytes += PyBytes_GET_SIZE(key)
        if value is not None:
            self._bytes += PyBytes_GET_SIZE(value)
        if headers:
            self._bytes += sum([len(name) + len(given or b"") for name, given in headers])
        if at != SENT_NOW:
            self._note(wall_ms() - at)

    cdef void _note(self, int64_t latency_ms) noexcept:
        cdef int bucket = 0
        if latency_ms < 0:  # by another machine's clock
            latency_ms = 0
        while bucket < self._buckets and latency_ms > self._bounds[bucket]:
            bucket += 1
        self._counts[bucket] += 1
        self._total_ms += latency_ms
        if latency_ms < self._lowest_ms or self._lowest_ms < 0:
            self._lowest_ms = latency_ms
        if latency_ms > self._highest_ms:
            self._highest_ms = latency_ms

    def take(self):
        """See the contract."""
        counts = tuple([self._counts[index] for index in range(self._buckets + 1)])
        lowest, highest = (None, None) if self._lowest_ms < 0 else (self._lowest_ms, self._highest_ms)
        self._lowest_ms = self._highest_ms = -1
        return Sent(self._records, self._bytes, Distribution(counts, self._total_ms), lowest, highest)


# ---- the consumer ----

cdef void _on_client_error(rd_kafka_t *client, int code, const char *reason, void *opaque) noexcept nogil:
    """Ignores the error. The group's member also notices a deleted topic, and asks for it: ``MissingTopics``."""


@cython.no_gc_clear  # closing needs the consumer
cdef class Fetcher:
    """See ``fetcher.Fetcher``.

    librdkafka also reports errors here: of connections, and of partitions that were deleted. confluent-kafka has a
    callback for them that may run only inside its own calls: here it would end the process. So it is removed from the
    client after the client was made: librdkafka has no other way. No user's callback is lost, since `binding.supports`
    leaves clients with such callbacks to confluent-kafka.
    """

    cdef rd_kafka_queue_t *_queue
    cdef rd_kafka_message_t **_messages
    cdef size_t _room
    cdef object _consumer  # lives as long as its queue is used

    def __init__(self, consumer):
        cdef rd_kafka_t *client
        if not isinstance(consumer, Consumer):
            raise TypeError(f"a confluent_kafka.Consumer is needed, not {type(consumer).__name__}")
        # Every client object of confluent-kafka begins with the handle; `binding.py` has checked that.
        client = (<rd_kafka_t **> (<char *> <PyObject *> consumer + sizeof(PyObject)))[0]
        if client == NULL:
            raise RuntimeError("the consumer is closed")
        self._consumer = consumer
        self._queue = rd_kafka_queue_get_consumer(client)
        rd_kafka_conf_set_error_cb(<rd_kafka_conf_t *> rd_kafka_conf(client), _on_client_error)

    def __dealloc__(self):
        self.close()
        free(self._messages)

    def fetch(self, size_t max_records, double timeout_s):
        """See ``fetcher.Fetcher.fetch``."""
        cdef ssize_t count, index
        cdef rd_kafka_message_t **grown
        cdef int timeout_ms = <int> (timeout_s * 1000)
        if self._queue == NULL:
            raise RuntimeError("the consumer is closed")
        if max_records > self._room:
            grown = <rd_kafka_message_t **> realloc(self._messages, max_records * sizeof(void *))
            if grown == NULL:
                raise MemoryError()
            self._messages, self._room = grown, max_records
        with nogil:
            count = rd_kafka_consume_batch_queue(self._queue, timeout_ms, self._messages, max_records)
        if count < 0:
            raise KafkaException(KafkaError(rd_kafka_last_error()))
        try:
            return _columns(self._messages, count)
        finally:
            with nogil:
                for index in range(count):
                    rd_kafka_message_destroy(self._messages[index])

    def close(self):
        """See ``fetcher.Fetcher.close``."""
        if self._queue != NULL:
            rd_kafka_queue_destroy(self._queue)
            self._queue = NULL


cdef tuple _columns(rd_kafka_message_t **messages, ssize_t count):
    cdef list batches = [], events = []
    cdef rd_kafka_message_t *message
    cdef ssize_t index, begin = 0
    for index in range(count):
        message = messages[index]
        if message.err != 0:
            _close_run(batches, messages, begin, index)
            begin = index + 1
            events.append(_event(message))
        elif index > begin and (
            message.rkt != messages[begin].rkt or message.partition != messages[begin].partition
        ):
            _close_run(batches, messages, begin, index)
            begin = index
    _close_run(batches, messages, begin, count)
    return batches, events


cdef object _event(rd_kafka_message_t *message):
    topic = None if message.rkt == NULL else rd_kafka_topic_name(message.rkt).decode()
    error = KafkaError(message.err)
    if message.payload != NULL:
        error = KafkaError(message.err, (<char *> message.payload)[: message.len].decode(errors="replace"))
    return Event(topic, message.partition, message.offset, error)


cdef int _close_run(list batches, rd_kafka_message_t **messages, ssize_t begin, ssize_t end) except -1:
    """Append the records of one partition as a batch, unless there are none."""
    cdef list keys = [], values = [], timestamps = []
    cdef object offsets, headers = None
    cdef rd_kafka_message_t *message
    cdef rd_kafka_headers_t *found
    cdef ssize_t index, size = 0
    cdef int kind
    if begin == end:
        return 0
    for index in range(begin, end):
        message = messages[index]
        size += message.key_len + message.len
        keys.append(None if message.key == NULL else PyBytes_FromStringAndSize(<char *> message.key, message.key_len))
        values.append(None if message.payload == NULL else PyBytes_FromStringAndSize(<char *> message.payload, message.len))
        timestamps.append(rd_kafka_message_timestamp(message, &kind))
        if rd_kafka_message_headers(message, &found) == 0:
            if headers is None:
                headers = [None] * (end - begin)
            headers[index - begin] = _header_pairs(found)
    message = messages[begin]
    offsets = range(message.offset, messages[end - 1].offset + 1)
    if messages[end - 1].offset + 1 - message.offset != end - begin:  # compacted, or with markers between
        offsets = [messages[index].offset for index in range(begin, end)]
    where = TopicPartition(rd_kafka_topic_name(message.rkt).decode(), message.partition)
    batches.append(RecordBatch(where, keys, values, timestamps, offsets, headers, size))
    return 0


cdef list _header_pairs(rd_kafka_headers_t *headers):
    cdef list pairs = []
    cdef const char *name
    cdef const void *value
    cdef size_t size
    while rd_kafka_header_get_all(headers, len(pairs), &name, &value, &size) == 0:
        pairs.append((name.decode(errors="replace"), None if value == NULL else PyBytes_FromStringAndSize(<const char *> value, size)))
    return pairs
