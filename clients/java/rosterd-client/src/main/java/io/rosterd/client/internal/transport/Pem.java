package io.rosterd.client.internal.transport;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Certificates or a key: the PEM itself, or a file that is read again for each connection, so that a renewed one is used from the
 * next connection on.
 */
public final class Pem {
    /** None. */
    public static final Pem NONE = new Pem(null, null);

    private final byte[] text;
    private final Path file;

    private Pem(byte[] text, Path file) {
        this.text = text;
        this.file = file;
    }

    /** {@return the PEM itself} */
    public static Pem of(byte[] text) {
        return new Pem(text.clone(), null);
    }

    /** {@return a file} */
    public static Pem of(Path file) {
        return new Pem(null, file);
    }

    /** {@return whether it is set} */
    public boolean isPresent() {
        return text != null || file != null;
    }

    /** {@return this, or the other if this is not set} */
    public Pem or(Pem other) {
        return isPresent() ? this : other;
    }

    /** {@return the current content} */
    public InputStream read() throws IOException {
        return text == null ? new ByteArrayInputStream(Files.readAllBytes(file)) : new ByteArrayInputStream(text);
    }

    @Override
    public String toString() {
        return file == null ? "PEM" : file.toString();
    }
}
