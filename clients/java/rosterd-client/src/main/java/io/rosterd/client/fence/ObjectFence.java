package io.rosterd.client.fence;

import io.rosterd.client.Run;
import java.io.IOException;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * S3 and compatible stores: an object carries the token of the run that wrote it as metadata, and is put only if it has
 * not changed since the fence read it ({@code If-Match}, {@code If-None-Match}).
 *
 * <p>An ETag is made from the body: two runs that write the very same bytes make one ETag, and the fence does not detect a late
 * run between them. So make the body of each run different, for example by a field with its token.
 */
public final class ObjectFence {
    /** The metadata that holds the token. */
    public static final String METADATA = "rosterd-token";

    private static final int ATTEMPTS = 10;

    /**
     * The metadata of an existing object.
     *
     * @param etag its ETag
     * @param token the metadata {@link #METADATA}; empty: it was not written by a fence
     */
    public record Head(String etag, Optional<String> token) {}

    /** The two requests of the program's own client that a fence needs. */
    public interface Store {
        /**
         * HeadObject.
         *
         * @param key the object's key
         * @return its metadata; empty: there is no object
         * @throws IOException if the request fails
         */
        Optional<Head> head(String key) throws IOException;

        /**
         * PutObject, with {@code If-Match: etag}, or {@code If-None-Match: *} without an etag.
         *
         * @param key the object's key
         * @param body what to put
         * @param etag what the object must have; empty: it must be absent
         * @param metadata what to put with it
         * @return false: the condition did not hold (412, 409 for a conflict, or 404 if the object is gone)
         * @throws IOException if the request fails
         */
        boolean put(String key, byte[] body, Optional<String> etag, Map<String, String> metadata) throws IOException;
    }

    private final Store store;

    /**
     * Makes one.
     *
     * @param store the program's own client
     */
    public ObjectFence(Store store) {
        this.store = store;
    }

    /**
     * Puts an object.
     *
     * @param key its key
     * @param body what to put
     * @param run the run
     * @throws FencedException if a run with a higher token has written the object
     * @throws IOException if a request fails, or others keep changing the object
     */
    public void put(String key, byte[] body, Run run) throws IOException {
        Map<String, String> metadata = Map.of(METADATA, Long.toString(run.token()));
        for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
            Optional<Head> head = store.head(key);
            long seen = head.flatMap(Head::token).map(Long::parseLong).orElse(0L);
            if (seen > run.token()) throw new FencedException("object " + key, run.token(), OptionalLong.of(seen));
            if (store.put(key, body, head.map(Head::etag), metadata)) return;
            // Another writer was quicker: its token decides.
        }
        throw new IOException("object " + key + ": it changed " + ATTEMPTS
                + " times while it was to be written: is it written without fences?");
    }
}
