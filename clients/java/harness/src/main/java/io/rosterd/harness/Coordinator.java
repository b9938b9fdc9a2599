package io.rosterd.harness;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A real coordinator, on any port that is free. */
public final class Coordinator implements AutoCloseable {
    private static final Pattern SERVING = Pattern.compile("serving address=(\\S+)");

    private final Kept process = new Kept("coordinator");
    private final String server;

    private Coordinator(List<String> flags) {
        List<String> command = new ArrayList<>(List.of(Repository.binary(), "serve", "--listen", "127.0.0.1:0"));
        command.addAll(List.of("--data-dir", process.folder().resolve("data").toString()));
        command.addAll(flags);
        process.start(command);
        process.until(
                "a coordinator that serves",
                () -> SERVING.matcher(process.log()).find());
        Matcher serving = SERVING.matcher(process.log());
        if (!serving.find()) throw new AssertionError(process.log());
        server = serving.group(1);
    }

    /**
     * One with a store of its own on disk.
     *
     * @param flags more flags of {@code rosterd serve}
     * @return the coordinator
     */
    public static Coordinator onDisk(String... flags) {
        return new Coordinator(List.of(flags));
    }

    /**
     * One on ZooKeeper.
     *
     * @param servers {@code host:port}
     * @param namespace the root of its nodes
     * @return the coordinator
     */
    public static Coordinator onZooKeeper(String servers, String namespace) {
        return new Coordinator(List.of("--registry", "zookeeper", "--zk", servers, "--namespace", namespace));
    }

    /** {@return where it listens, {@code host:port}} */
    public String server() {
        return server;
    }

    /**
     * Runs the command line against it.
     *
     * @param words for example {@code runs}, {@code --json}
     * @return what it has printed
     */
    public String ask(String... words) {
        List<String> asking = new ArrayList<>(List.of(words));
        asking.addAll(List.of("--server", server));
        return run(asking.toArray(String[]::new));
    }

    /**
     * Runs the command line.
     *
     * @param words for example {@code credentials}, {@code add}
     * @return what it has printed
     */
    public static String run(String... words) {
        List<String> command = new ArrayList<>(List.of(Repository.binary()));
        command.addAll(List.of(words));
        try {
            // Separate from its output, and not in a pipe that nobody reads.
            Path errors = Files.createTempFile("rosterd-", ".err");
            try {
                Process asked = new ProcessBuilder(command)
                        .redirectError(errors.toFile())
                        .start();
                asked.getOutputStream().close();
                String said = new String(asked.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
                if (asked.waitFor() == 0) return said;
                throw new AssertionError(String.join(" ", words) + ": " + Files.readString(errors));
            } finally {
                Files.delete(errors);
            }
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new AssertionError(interrupted);
        }
    }

    @Override
    public void close() {
        process.close();
    }
}
