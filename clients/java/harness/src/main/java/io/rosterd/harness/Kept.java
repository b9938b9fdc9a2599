package io.rosterd.harness;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.stream.Stream;

/**
 * A program that is killed once this JVM closes a pipe or ends, and a folder that goes with it.
 *
 * <p>A shell watches it: Java cannot tie a child to its parent.
 */
final class Kept implements AutoCloseable {
    private static final String KEEPER = """
        dir=$1; shift
        "$@" </dev/null >>"$dir/log" 2>&1 &
        pid=$!
        read -r word
        kill -9 "$pid"
        wait "$pid" 2>/dev/null
        rm -rf "$dir"
        """;

    private final Path folder;
    private Process keeper;

    Kept(String name) {
        try {
            folder = Files.createTempDirectory("rosterd-" + name + "-");
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    Path folder() {
        return folder;
    }

    void start(List<String> command) {
        List<String> kept = new ArrayList<>(List.of("sh", "-c", KEEPER, "sh", folder.toString()));
        kept.addAll(command);
        try {
            keeper = new ProcessBuilder(kept).redirectErrorStream(true).start();
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    /** Waits for a state. If it does not come, ends the program and fails with its log. */
    void until(String what, Callable<Boolean> state) {
        try {
            Wait.until(what, state);
        } catch (AssertionError late) {
            String said = log();
            close();
            throw new AssertionError(late.getMessage() + "; it says:\n" + said, late);
        }
    }

    /** Its output so far. */
    String log() {
        try {
            Path log = folder.resolve("log");
            return Files.exists(log) ? Files.readString(log) : "";
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    /** Kills it and removes its folder. */
    @Override
    public void close() {
        if (keeper == null) {
            remove();
            return;
        }
        try {
            keeper.getOutputStream().close();
            keeper.waitFor();
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void remove() {
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder())
                    .forEach(file -> file.toFile().delete());
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }
}
