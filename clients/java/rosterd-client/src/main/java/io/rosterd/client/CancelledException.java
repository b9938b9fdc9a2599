package io.rosterd.client;

/** Ends a handler whose run must stop. A handler that throws it on its own ends its run as cancelled. */
public class CancelledException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes one.
     *
     * @param message why the run stops
     */
    public CancelledException(String message) {
        super(message);
    }
}
