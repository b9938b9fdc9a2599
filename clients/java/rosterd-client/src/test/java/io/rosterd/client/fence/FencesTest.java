package io.rosterd.client.fence;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rosterd.client.Run;
import io.rosterd.client.testing.TestRun;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import software.amazon.awssdk.core.exception.SdkClientException;

/** Fences against real servers: what a newer run has written, an older one cannot take back. */
class FencesTest {
    /** Above the precision of a double, and one of another length. */
    private static final long OLD = 9_007_199_254_740_993L;

    private static final long NEW = 9_007_199_254_740_994L;
    private static final long SHORT = 999_999_999_999_999L;

    private static Servers.Started postgres;
    private static Servers.Started redis;
    private static Servers.Started s3;

    private final PostgresFence fence = new PostgresFence();

    @BeforeAll
    static void start() throws Exception {
        postgres = Servers.postgres();
        redis = Servers.redis();
        s3 = Servers.s3();
        await("PostgreSQL", () -> {
            connect().close();
            return null;
        });
        await("Redis", () -> {
            new RedisClient(redis.port()).close();
            return null;
        });
        try (Bucket bucket = new Bucket(s3.port())) {
            await("S3", () -> {
                bucket.create();
                return null;
            });
        }
    }

    @AfterAll
    static void stop() throws Exception {
        if (postgres != null) postgres.close();
        if (redis != null) redis.close();
        if (s3 != null) s3.close();
    }

    private static void await(String what, Callable<Void> attempt) throws Exception {
        long end = System.nanoTime() + 20_000_000_000L;
        while (true) {
            try {
                attempt.call();
                return;
            } catch (SQLException | IOException | SdkClientException notYet) {
                if (System.nanoTime() > end) throw new AssertionError(what + " does not answer", notYet);
                Thread.sleep(20);
            }
        }
    }

    private static Connection connect() throws SQLException {
        return DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + postgres.port() + "/postgres", "tests", "");
    }

    private static Run run(long token) {
        return run(token, 0);
    }

    private static Run run(long token, int item) {
        return TestRun.builder().job("hello").item(item).token(token).build();
    }

    private static void assertFenced(long seen, org.junit.jupiter.api.function.Executable write) {
        assertEquals(
                OptionalLong.of(seen),
                assertThrows(FencedException.class, write).seen());
    }

    // ---- PostgreSQL

    @BeforeEach
    void createTables() throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS rosterd_tokens, account");
            statement.execute("CREATE TABLE account (id int PRIMARY KEY, amount int)");
            statement.execute("INSERT INTO account VALUES (1, 0)");
            fence.createTable(connection);
            fence.createTable(connection);
        }
    }

    private static int set(Connection connection, int amount) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return statement.executeUpdate("UPDATE account SET amount = " + amount);
        }
    }

    private static int amount() throws SQLException {
        try (Connection connection = connect();
                Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT amount FROM account")) {
            rows.next();
            return rows.getInt(1);
        }
    }

    @Test
    void postgresRefusesTheTransactionOfAnOlderRunAndKeepsNothingOfIt() throws SQLException {
        try (Connection connection = connect()) {
            for (long token : List.of(SHORT, OLD, NEW, NEW)) {
                int rows = fence.inTransaction(connection, run(token), in -> set(in, 4));
                assertEquals(1, rows);
            }
            assertFenced(NEW, () -> fence.inTransaction(connection, run(OLD), in -> set(in, 5)));
            assertFenced(NEW, () -> fence.inTransaction(connection, run(SHORT), in -> set(in, 6)));
            assertEquals(4, amount());
            assertTrue(connection.getAutoCommit());
            fence.inTransaction(connection, run(1, 1), in -> set(in, 7));
            assertEquals(7, amount(), "each item has tokens of its own");
        }
    }

    @Test
    void aNewerRunWaitsForTheOlderOnesTransactionAndThenOutbids() throws Exception {
        List<String> order = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch within = new CountDownLatch(1);
        CountDownLatch release = new CountDownLatch(1);
        FutureTask<Integer> older = new FutureTask<>(() -> {
            try (Connection connection = connect()) {
                return fence.inTransaction(connection, run(OLD), in -> {
                    within.countDown();
                    awaitQuietly(release);
                    order.add("older");
                    return set(in, 1);
                });
            }
        });
        FutureTask<Integer> newer = new FutureTask<>(() -> {
            try (Connection connection = connect()) {
                return fence.inTransaction(connection, run(NEW), in -> {
                    order.add("newer");
                    return set(in, 2);
                });
            }
        });
        new Thread(older).start();
        within.await();
        new Thread(newer).start();
        release.countDown();
        assertEquals(List.of(1, 1), List.of(older.get(), newer.get()));
        assertEquals(List.of("older", "newer"), order);
        assertEquals(2, amount());
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    @Test
    void whatFailsInATransactionIsRolledBackAndThrown() throws SQLException {
        try (Connection connection = connect()) {
            assertThrows(
                    IllegalStateException.class,
                    () -> fence.inTransaction(connection, run(OLD), in -> {
                        set(in, 1);
                        throw new IllegalStateException("no");
                    }));
            assertEquals(0, amount());
            fence.check(connection, run(SHORT));
        }
    }

    @Test
    void aLookTellsAnOlderRunToStopEarly() throws SQLException {
        try (Connection connection = connect()) {
            fence.check(connection, run(OLD));
            fence.inTransaction(connection, run(NEW), in -> 0);
            fence.check(connection, run(NEW));
            assertFenced(NEW, () -> fence.check(connection, run(OLD)));
        }
        assertThrows(IllegalArgumentException.class, () -> new PostgresFence("bad; name"));
    }

    // ---- Redis

    @Test
    void redisRefusesAKeyThatANewerRunHasWritten() throws IOException {
        try (RedisClient client = new RedisClient(redis.port())) {
            RedisFence keys = new RedisFence(client::eval);
            for (long token : List.of(SHORT, OLD, NEW)) keys.set("k", "of " + token, run(token));
            keys.set("k", "new again", run(NEW));
            for (long token : List.of(OLD, SHORT)) {
                assertFenced(NEW, () -> keys.set("k", "late", run(token)));
                assertFenced(NEW, () -> keys.claim("k", run(token)));
            }
            assertEquals("new again", client.call(List.of("HGET", "k", "value")));
            assertEquals(Long.toString(NEW), client.call(List.of("HGET", "k", "token")));
            keys.claim("claimed", run(NEW));
            assertFenced(NEW, () -> keys.set("claimed", "late", run(OLD)));
        }
    }

    // ---- S3

    private static void put(Bucket bucket, String key, String body, long token) {
        try {
            new ObjectFence(bucket).put(key, body.getBytes(StandardCharsets.UTF_8), run(token));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void s3RefusesAnObjectThatANewerRunHasWritten() {
        try (Bucket bucket = new Bucket(s3.port())) {
            for (long token : List.of(SHORT, OLD, NEW)) put(bucket, "report", "of " + token, token);
            assertFenced(NEW, () -> put(bucket, "report", "late", OLD));
            assertEquals("of " + NEW, bucket.read("report"));
            assertEquals(
                    Optional.of(Long.toString(NEW)),
                    bucket.head("report").orElseThrow().token());
        }
    }

    @Test
    void anObjectThatANewerRunPutsBetweenLookAndPutIsKept() {
        try (Bucket bucket = new Bucket(s3.port())) {
            put(bucket, "between", "first", SHORT);
            for (String key : List.of("between", "made between")) {
                bucket.between = () -> put(bucket, key, "newer", NEW);
                assertFenced(NEW, () -> put(bucket, key, "late", OLD));
                assertEquals("newer", bucket.read(key));
            }
            bucket.between = () -> put(bucket, "between", "again", NEW);
            put(bucket, "between", "last", NEW);
            assertEquals("last", bucket.read("between"));
        }
    }

    @Test
    void anObjectThatIsRemovedBetweenLookAndPutIsMadeAnew() {
        try (Bucket bucket = new Bucket(s3.port())) {
            put(bucket, "gone", "first", OLD);
            bucket.between = () -> bucket.delete("gone");
            put(bucket, "gone", "again", OLD);
            assertEquals("again", bucket.read("gone"));
            assertEquals(3, bucket.puts);
        }
    }

    // ---- files

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String read(FileFence file) throws IOException {
        return new String(file.read().orElseThrow(), StandardCharsets.UTF_8);
    }

    @Test
    void whatANewerRunHasWrittenIsWhatIsReadOfAFile(@TempDir Path folder) throws IOException {
        FileFence file = new FileFence(folder.resolve("report.csv"));
        assertTrue(file.read().isEmpty());
        for (long token : List.of(SHORT, OLD, NEW)) file.write(bytes("of " + token), run(token));
        assertFenced(NEW, () -> file.write(bytes("late"), run(OLD)));
        assertEquals("of " + NEW, read(file));
        try (Stream<Path> names = Files.list(folder)) {
            assertEquals(List.of(folder.resolve("report.csv.0009007199254740994")), names.toList());
        }
        file.write(bytes("new again"), run(NEW));
        assertEquals("new again", read(file));
    }

    @Test
    void aRunThatWakesWithItsRenameStillToComeMakesANameThatNobodyReads(@TempDir Path folder) throws IOException {
        FileFence file = new FileFence(folder.resolve("report.csv"));
        file.write(bytes("new"), run(NEW));
        // As if it had slept: it has passed all its checks.
        Files.write(folder.resolve("report.csv.0009007199254740993"), bytes("late"));
        Files.write(folder.resolve("report.csv.bak"), bytes("another's"));
        assertEquals("new", read(file));
    }
}
