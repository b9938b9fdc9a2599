package io.rosterd.client.fence;

import io.rosterd.client.Run;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeSet;
import java.util.regex.Pattern;

/**
 * Files: each run writes its own name, {@code PATH.0000000000000000005}, which ends in its token; readers use the
 * highest token. A run that resumes after another has taken its place can only create a name that is no longer read. No
 * lock is needed, so a process that dies leaves none behind, and a sleeping one does not appear to hold one.
 */
public final class FileFence {
    /** Tokens of 63 bits have 19 digits: names of one length sort as their tokens do. */
    private static final Pattern DIGITS = Pattern.compile("[0-9]{19}");

    private static final boolean WINDOWS = System.getProperty("os.name").startsWith("Windows");

    private final Path path;
    private final Path folder;

    /**
     * One file that runs of an item write as a whole.
     *
     * @param path the beginning of its names
     */
    public FileFence(Path path) {
        this.path = path.toAbsolutePath();
        folder = this.path.getParent();
    }

    /**
     * Writes the file. Older content is removed; readers see the old content or the new.
     *
     * @param content the content
     * @param run the run
     * @throws FencedException if a run with a higher token has written the file
     * @throws IOException if that fails
     */
    public void write(byte[] content, Run run) throws IOException {
        judge(run);
        Path own = name(run.token());
        Path unfinished = own.resolveSibling(own.getFileName() + ".new");
        try {
            writeDurably(unfinished, content);
            Files.move(unfinished, own, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(unfinished);
        }
        syncFolder();
        // A newer run may have written meanwhile: then readers ignore ours.
        judge(run);
        for (long token : tokens().headSet(run.token())) Files.deleteIfExists(name(token));
    }

    /**
     * Finds the file with the current content. A newer write may remove it.
     *
     * @return empty: none was written
     * @throws IOException if the folder cannot be read
     */
    public Optional<Path> current() throws IOException {
        TreeSet<Long> tokens = tokens();
        return tokens.isEmpty() ? Optional.empty() : Optional.of(name(tokens.last()));
    }

    /**
     * Reads the current content.
     *
     * @return empty: none was written
     * @throws IOException if it cannot be read
     */
    public Optional<byte[]> read() throws IOException {
        while (true) {
            Optional<Path> found = current();
            if (found.isEmpty()) return Optional.empty();
            try {
                return Optional.of(Files.readAllBytes(found.get()));
            } catch (NoSuchFileException replaced) {
                // It was replaced between the two steps: there is a newer one.
            }
        }
    }

    private void judge(Run run) throws IOException {
        TreeSet<Long> tokens = tokens();
        if (!tokens.isEmpty() && tokens.last() > run.token()) {
            throw new FencedException("file " + path, run.token(), OptionalLong.of(tokens.last()));
        }
    }

    private TreeSet<Long> tokens() throws IOException {
        String prefix = path.getFileName() + ".";
        TreeSet<Long> tokens = new TreeSet<>();
        try (DirectoryStream<Path> names = Files.newDirectoryStream(folder)) {
            for (Path name : names) {
                String text = name.getFileName().toString();
                if (!text.startsWith(prefix)) continue;
                String ending = text.substring(prefix.length());
                if (DIGITS.matcher(ending).matches()) tokens.add(Long.parseLong(ending));
            }
        }
        return tokens;
    }

    private Path name(long token) {
        return path.resolveSibling(String.format("%s.%019d", path.getFileName(), token));
    }

    /** On Windows a folder cannot be synced, and a rename is written through by itself. */
    private void syncFolder() throws IOException {
        if (WINDOWS) return;
        try (FileChannel names = FileChannel.open(folder, StandardOpenOption.READ)) {
            names.force(true);
        }
    }

    private static void writeDurably(Path path, byte[] content) throws IOException {
        try (FileChannel file = FileChannel.open(
                path, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            ByteBuffer rest = ByteBuffer.wrap(content);
            while (rest.hasRemaining()) file.write(rest);
            file.force(true);
        }
    }
}
