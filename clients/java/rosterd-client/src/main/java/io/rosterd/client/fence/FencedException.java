package io.rosterd.client.fence;

import io.rosterd.client.FatalException;
import java.util.OptionalLong;

/**
 * The store has seen a higher token: another run of the item took this one's place, and nothing was written. It is not
 * retried.
 */
public final class FencedException extends FatalException {
    private static final long serialVersionUID = 1L;

    /** The run's token. */
    private final long token;
    /** The token that the store has seen; negative: unknown. */
    private final long seen;

    FencedException(String what, long token, OptionalLong seen) {
        super(what + ": token " + token + " came too late, "
                + (seen.isPresent() ? "token " + seen.getAsLong() : "a higher one")
                + " was seen: another run of the item took this one's place");
        this.token = token;
        this.seen = seen.orElse(-1);
    }

    /** {@return the run's token} */
    public long token() {
        return token;
    }

    /** {@return the token that the store has seen; empty: unknown} */
    public OptionalLong seen() {
        return seen < 0 ? OptionalLong.empty() : OptionalLong.of(seen);
    }
}
