package io.rosterd.examples;

import io.rosterd.client.Dataflow;
import io.rosterd.client.JobConfig;
import io.rosterd.client.JobOptions;
import io.rosterd.client.Run;
import io.rosterd.client.Worker;
import io.rosterd.client.fence.FencedException;
import io.rosterd.client.fence.PostgresFence;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Bills orders of a table, batch by batch, every minute, in three regions at a time: the item's offset is the last
 * order that was billed, and each write carries the run's token.
 *
 * <p>{@code DATABASE} is a JDBC URL of PostgreSQL, with a table {@code orders (id bigint PRIMARY KEY, region text, billed boolean)}.
 */
final class Orders implements Dataflow<Long> {
    private static final Logger LOG = LoggerFactory.getLogger(Orders.class);
    private static final int BATCH = 100;

    private final String database;
    private final PostgresFence fence = new PostgresFence();

    private Orders(String database) throws SQLException {
        this.database = database;
        try (Connection connection = DriverManager.getConnection(database)) {
            fence.createTable(connection);
        }
    }

    public static void main(String[] arguments) throws Exception {
        JobConfig config = JobConfig.builder()
                .items(3)
                .itemParameters("africa", "america", "asia")
                .cron("0 * * * * ?")
                .kind(JobConfig.Kind.DATAFLOW)
                .streaming(true)
                .failover(true)
                .timeout(Duration.ofMinutes(10))
                .retries(new JobConfig.Retries(3))
                .build();
        JobOptions options = JobOptions.builder()
                .config(config)
                .onError((run, error) -> LOG.warn("attempt {} failed", run.attempt(), error))
                .build();
        Worker worker = Worker.builder().slots(3).health(8080).build();
        worker.dataflow("orders", new Orders(System.getenv("DATABASE")), options);
        worker.run();
    }

    @Override
    public List<Long> fetch(Run run) throws SQLException {
        String text = "SELECT id FROM orders WHERE region = ? AND id > ? AND NOT billed ORDER BY id LIMIT " + BATCH;
        try (Connection connection = DriverManager.getConnection(database);
                PreparedStatement select = connection.prepareStatement(text)) {
            select.setString(1, run.itemParameter());
            select.setLong(2, lastBilled(run));
            List<Long> orders = new ArrayList<>();
            try (ResultSet rows = select.executeQuery()) {
                while (rows.next()) orders.add(rows.getLong(1));
            }
            return orders;
        }
    }

    @Override
    public void process(Run run, List<Long> orders) throws SQLException, FencedException {
        try (Connection connection = DriverManager.getConnection(database)) {
            // A run that was replaced while it slept gets a FencedException, and nothing is written.
            fence.inTransaction(connection, run, transaction -> bill(transaction, orders));
        }
        run.setOffset(Long.toString(orders.get(orders.size() - 1)).getBytes(StandardCharsets.UTF_8));
        LOG.info("billed {} orders", orders.size());
    }

    private static int bill(Connection transaction, List<Long> orders) throws SQLException {
        try (PreparedStatement update = transaction.prepareStatement("UPDATE orders SET billed = true WHERE id = ?")) {
            for (long order : orders) {
                update.setLong(1, order);
                update.addBatch();
            }
            return update.executeBatch().length;
        }
    }

    private static long lastBilled(Run run) {
        String offset = new String(run.offset(), StandardCharsets.UTF_8);
        return offset.isEmpty() ? 0 : Long.parseLong(offset);
    }
}
