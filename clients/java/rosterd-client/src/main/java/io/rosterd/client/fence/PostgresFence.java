package io.rosterd.client.fence;

import io.rosterd.client.Run;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.OptionalLong;
import java.util.regex.Pattern;

/**
 * PostgreSQL: a row per item holds the highest token. Locking and comparing it in the transaction that writes makes all
 * its writes conditional.
 *
 * <p>If the written row has a column for the token, no table is needed: {@code UPDATE account SET …, token = ? WHERE id = ? AND token
 * <= ?}, and no row means that the run was fenced.
 */
public final class PostgresFence {
    private static final String TABLE = "rosterd_tokens";
    private static final Pattern NAME = Pattern.compile("[a-z_][a-z0-9_]*(\\.[a-z_][a-z0-9_]*)?");

    private final String table;

    /** Tokens are in the table {@code rosterd_tokens}. */
    public PostgresFence() {
        this(TABLE);
    }

    /**
     * Tokens are in another table.
     *
     * @param table lower-case, with a schema or without
     */
    public PostgresFence(String table) {
        if (!NAME.matcher(table).matches()) {
            throw new IllegalArgumentException(
                    "table '" + table + "': only lower-case names, with a schema or without");
        }
        this.table = table;
    }

    /**
     * The writes of a transaction.
     *
     * @param <T> what it returns
     */
    @FunctionalInterface
    public interface Write<T> {
        /**
         * Writes.
         *
         * @param connection the connection of the transaction
         * @return the caller's result
         * @throws SQLException if it fails; the transaction is rolled back
         */
        T in(Connection connection) throws SQLException;
    }

    /**
     * Makes the table of tokens if it is absent.
     *
     * @param connection a connection
     * @throws SQLException if that fails
     */
    public void createTable(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE IF NOT EXISTS " + table
                    + " (job text NOT NULL, item integer NOT NULL, token bigint NOT NULL, PRIMARY KEY (job, item))");
        }
    }

    /**
     * Writes in a transaction of its own, which is committed only if no higher token was seen for the run's item. The
     * item's row stays locked until the end, so a newer run waits and then raises the token.
     *
     * @param <T> what {@code write} returns
     * @param connection a connection outside of any transaction
     * @param run the run
     * @param write what to do
     * @return what {@code write} returned
     * @throws FencedException if a higher token was seen; nothing was written
     * @throws SQLException if it fails; nothing was written
     */
    public <T> T inTransaction(Connection connection, Run run, Write<T> write) throws SQLException {
        boolean autoCommit = connection.getAutoCommit();
        connection.setAutoCommit(false);
        try {
            guard(connection, run);
            T result = write.in(connection);
            connection.commit();
            return result;
        } catch (SQLException | RuntimeException | Error failure) {
            rollBack(connection, failure);
            throw failure;
        } finally {
            connection.setAutoCommit(autoCommit);
        }
    }

    private static void rollBack(Connection connection, Throwable failure) {
        try {
            connection.rollback();
        } catch (SQLException second) {
            // The first error counts.
            failure.addSuppressed(second);
        }
    }

    /**
     * Guards a transaction that the caller has begun, and ends: locks and compares the item's row. If it throws, roll back.
     *
     * @param connection the connection of the transaction
     * @param run the run
     * @throws FencedException if a higher token was seen
     * @throws SQLException if it fails
     */
    public void guard(Connection connection, Run run) throws SQLException {
        String text = "INSERT INTO " + table + " AS seen (job, item, token) VALUES (?, ?, ?)"
                + " ON CONFLICT (job, item) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token";
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            statement.setString(1, run.job());
            statement.setInt(2, run.item());
            statement.setLong(3, run.token());
            if (statement.executeUpdate() == 1) return;
        }
        throw new FencedException(nameOf(run), run.token(), seen(connection, run));
    }

    /**
     * Checks whether a higher token was seen. It locks nothing: a newer run may begin right after it. It saves work; it
     * does not replace {@link #inTransaction}.
     *
     * @param connection a connection
     * @param run the run
     * @throws FencedException if a higher token was seen
     * @throws SQLException if it fails
     */
    public void check(Connection connection, Run run) throws SQLException {
        OptionalLong seen = seen(connection, run);
        if (seen.orElse(0) > run.token()) throw new FencedException(nameOf(run), run.token(), seen);
    }

    private OptionalLong seen(Connection connection, Run run) throws SQLException {
        String text = "SELECT token FROM " + table + " WHERE job = ? AND item = ?";
        try (PreparedStatement statement = connection.prepareStatement(text)) {
            statement.setString(1, run.job());
            statement.setInt(2, run.item());
            try (ResultSet rows = statement.executeQuery()) {
                return rows.next() ? OptionalLong.of(rows.getLong(1)) : OptionalLong.empty();
            }
        }
    }

    private static String nameOf(Run run) {
        return run.job() + "/" + run.item();
    }
}
