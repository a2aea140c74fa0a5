import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.Iterator;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;

/** All that a store holds, as texts: keys with their windows, values with their timestamps where they have some. */
final class Contents {
    private Contents() {}

    /** Whether this store is of a kind that can be read from end to end: buffers and versioned stores are not. */
    static boolean isReadable(Object store) {
        return store instanceof ReadOnlyKeyValueStore
                || store instanceof ReadOnlyWindowStore
                || store instanceof ReadOnlySessionStore;
    }

    static void write(Object store, ArrayNode entries) {
        try (KeyValueIterator<?, ?> all = all(store)) {
            for (Iterator<? extends KeyValue<?, ?>> each = all; each.hasNext(); ) {
                KeyValue<?, ?> entry = each.next();
                entries.addArray().add(String.valueOf(entry.key)).add(text(entry.value));
            }
        }
    }

    private static KeyValueIterator<?, ?> all(Object store) {
        if (store instanceof ReadOnlyKeyValueStore) {
            return ((ReadOnlyKeyValueStore<?, ?>) store).all();
        }
        return store instanceof ReadOnlyWindowStore
                ? ((ReadOnlyWindowStore<?, ?>) store).all()
                : ((ReadOnlySessionStore<?, ?>) store).fetch(null, null);
    }

    private static String text(Object value) {
        if (value instanceof ValueTimestampHeaders) {
            return ((ValueTimestampHeaders<?>) value).value() + " at " + ((ValueTimestampHeaders<?>) value).timestamp();
        }
        return value instanceof ValueAndTimestamp
                ? ((ValueAndTimestamp<?>) value).value() + " at " + ((ValueAndTimestamp<?>) value).timestamp()
                : String.valueOf(value);
    }
}
