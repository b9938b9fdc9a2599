package io.rosterd.conformance;

import io.rosterd.client.FatalException;
import io.rosterd.client.Run;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * What an item's parameter says, in steps separated by {@code ;}: {@code succeed}, {@code fail TEXT}, {@code fatal TEXT},
 * {@code sleep MS}, {@code busy MS}, {@code block MS}, {@code ignore MS}, {@code progress N [TEXT]}, {@code output TEXT},
 * {@code offset TEXT}, {@code append TEXT}, {@code count N M}, {@code gate PATH}, {@code once PATH STEP}, and for a dataflow
 * {@code batches N}.
 */
final class Steps {
    private static final long LOOK_EVERY_MILLIS = 10;

    private final Run run;
    private String output;
    private byte[] offset;

    Steps(Run run) {
        this.run = run;
        offset = run.offset();
    }

    /** How many batches a dataflow has; none unless the parameter says so. */
    static int batches(Run run) {
        for (String step : run.itemParameter().split(";")) {
            String[] words = step.strip().split(" ", 2);
            if (words[0].equals("batches")) return Integer.parseInt(words[1]);
        }
        return 0;
    }

    String perform() throws Exception {
        for (String step : run.itemParameter().split(";")) perform(step.strip());
        return output;
    }

    private void perform(String step) throws Exception {
        String[] words = step.split(" ", 2);
        String rest = words.length > 1 ? words[1] : "";
        switch (words[0]) {
            case "", "succeed", "batches" -> {}
            case "fail" -> throw new IllegalStateException(rest);
            case "fatal" -> throw new FatalException(rest);
            case "sleep" -> Thread.sleep(millis(rest));
            case "busy" -> spin(millis(rest));
            case "block", "ignore" -> block(millis(rest));
            case "progress" -> progress(rest);
            case "output" -> output = rest;
            case "offset" -> setOffset(rest.getBytes(StandardCharsets.UTF_8));
            case "append" -> append(rest);
            case "count" -> count(rest);
            case "gate" -> gate(Path.of(rest));
            case "once" -> once(rest);
            default -> throw new FatalException("'" + words[0] + "' is not a step");
        }
    }

    private static long millis(String text) {
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException invalid) {
            throw new FatalException("'" + text + "' is not a whole number");
        }
    }

    private void spin(long millis) {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        while (System.nanoTime() < until) run.throwIfCancelled();
    }

    /** Waits in the thread of the handler, and ignores interrupts. */
    private static void block(long millis) {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        while (System.nanoTime() < until) {
            try {
                TimeUnit.NANOSECONDS.sleep(until - System.nanoTime());
            } catch (InterruptedException ignored) {
                // Ignoring it is the purpose of this step.
            }
        }
    }

    private void progress(String rest) {
        String[] words = rest.split(" ", 2);
        run.progress((int) millis(words[0]), words.length > 1 ? words[1] : "");
    }

    private void setOffset(byte[] bytes) {
        run.setOffset(bytes);
        offset = bytes;
    }

    private void append(String text) throws IOException {
        ByteArrayOutputStream longer = new ByteArrayOutputStream();
        longer.write(offset);
        longer.write(text.getBytes(StandardCharsets.UTF_8));
        setOffset(longer.toByteArray());
    }

    private void count(String rest) {
        String[] words = rest.split(" ");
        run.count(millis(words[0]), words.length > 1 ? millis(words[1]) : 0);
    }

    private void gate(Path path) throws InterruptedException {
        while (!Files.exists(path)) {
            run.throwIfCancelled();
            Thread.sleep(LOOK_EVERY_MILLIS);
        }
    }

    private void once(String rest) throws Exception {
        String[] words = rest.split(" ", 2);
        try {
            Files.createFile(Path.of(words[0]));
        } catch (FileAlreadyExistsException before) {
            return;
        }
        perform(words.length > 1 ? words[1] : "");
    }
}
