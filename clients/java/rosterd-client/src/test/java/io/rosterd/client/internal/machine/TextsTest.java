package io.rosterd.client.internal.machine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class TextsTest {
    @Test
    void textsAreCutBetweenCharacters() {
        assertEquals("short", Texts.shorten("short", 5));
        assertEquals("sh…", Texts.shorten("shorter", 5));
        assertEquals("…", Texts.shorten("😀😀", 6));
        assertEquals("😀…", Texts.shorten("😀😀", 7));
        for (int limit = 3; limit < 40; limit++) {
            String cut = Texts.shorten("aä€😀".repeat(9), limit);
            byte[] bytes = cut.getBytes(StandardCharsets.UTF_8);
            assertTrue(bytes.length <= limit, limit + ": " + cut);
            assertEquals(cut, new String(bytes, StandardCharsets.UTF_8));
        }
    }

    @Test
    void aHalfOfAPairIsReplaced() {
        assertEquals("a\uFFFDb", Texts.shorten("a\uD83Db", 10));
    }
}
