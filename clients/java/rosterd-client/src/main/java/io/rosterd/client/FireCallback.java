package io.rosterd.client;

/** Is called once per fire, on one worker, if the job's {@code guarantee} asks for it. */
@FunctionalInterface
public interface FireCallback {
    /**
     * Called with the fire.
     *
     * @param fire the fire
     * @throws Exception if the callback failed; its text is recorded
     */
    void accept(Fire fire) throws Exception;
}
