package io.rosterd.client.internal.machine;

import java.nio.charset.StandardCharsets;

/** Texts that fit into the protocol's limits, which are in bytes. */
public final class Texts {
    /** The most bytes of an error. */
    public static final int MAX_ERROR = 8 * 1024;
    /** The most bytes of an output. */
    public static final int MAX_OUTPUT = 64 * 1024;
    /** The most bytes of a progress message. */
    public static final int MAX_PROGRESS = 1024;

    private static final String MARK = "…";
    private static final int MARK_BYTES = MARK.getBytes(StandardCharsets.UTF_8).length;

    private Texts() {}

    /** {@return the beginning of the text, in at most {@code limit} bytes of UTF-8, marked if something is missing} */
    public static String shorten(String text, int limit) {
        int kept = 0;
        int bytes = 0;
        int fits = 0;
        while (kept < text.length()) {
            int character = text.codePointAt(kept);
            bytes += bytesOf(character);
            if (bytes > limit) return wellFormed(text.substring(0, fits)) + MARK;
            kept += Character.charCount(character);
            if (bytes <= limit - MARK_BYTES) fits = kept;
        }
        return wellFormed(text);
    }

    private static int bytesOf(int character) {
        if (character < 0x80) return 1;
        if (character < 0x800) return 2;
        return character < 0x10000 ? 3 : 4;
    }

    /** A lone half of a pair has no UTF-8: protobuf would refuse the whole message. */
    private static String wellFormed(String text) {
        for (int at = 0; at < text.length(); at++) {
            if (Character.isSurrogate(text.charAt(at))) return replaced(text);
        }
        return text;
    }

    private static String replaced(String text) {
        StringBuilder whole = new StringBuilder(text.length());
        text.codePoints()
                .map(point -> point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE ? 0xFFFD : point)
                .forEach(whole::appendCodePoint);
        return whole.toString();
    }
}
