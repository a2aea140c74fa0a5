import java.time.Instant;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;

/**
 * A driver that closes its stores even where it cannot be closed.
 *
 * <p>After a record that failed, {@code TopologyTestDriver.close} throws as soon as it commits a store whose cache holds
 * anything, and leaves all stores open: each with its files, its memory and the lock on its folder.
 */
final class Driver extends TopologyTestDriver {
    Driver(Topology topology, Properties config) {
        super(topology, config, Instant.EPOCH);
    }

    @Override
    public void close() {
        List<StateStore> stores = List.copyOf(getAllStateStores().values());
        try {
            super.close();
        } catch (RuntimeException error) {
            stores.stream().filter(StateStore::isOpen).forEach(store -> close(store, error));
            throw error;
        }
    }

    private static void close(StateStore store, RuntimeException because) {
        try {
            store.close(); // a store that cannot write its cache says so, but is closed
        } catch (RuntimeException error) {
            because.addSuppressed(error);
        }
    }
}
