package io.rosterd.client.internal.transport;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.netty.shaded.io.netty.channel.EventLoop;
import io.grpc.netty.shaded.io.netty.channel.socket.nio.NioSocketChannel;
import io.rosterd.client.internal.machine.Event;
import io.rosterd.client.internal.machine.Route;
import io.rosterd.v1.SessionRequest;
import io.rosterd.v1.SessionResponse;
import io.rosterd.v1.WorkerServiceGrpc;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * One stream to one coordinator, over a connection of its own. Knows frames only as messages, not their meaning. Everything
 * happens on the event loop.
 */
public final class Stream {
    /** The most frames that wait for the coordinator's flow control; the machine's credits and rates keep them far below. */
    private static final int MAX_WAITING = 16 * 1024;
    /** How long to wait for the end of a connection. */
    private static final long CLOSE_TIMEOUT_MILLIS = 1_000;

    private final long number;
    private final String address;
    private final Access access;
    private final EventLoop loop;
    private final Consumer<Event> events;
    private ManagedChannel channel;
    private ClientCall<SessionRequest, SessionResponse> call;
    private boolean lost;
    private boolean closed;
    private int waiting;

    /**
     * Makes one that is not connected.
     *
     * @param number which of the process's streams
     * @param address the coordinator
     * @param access how it is secured
     * @param loop its thread
     * @param events gets the events
     */
    public Stream(long number, String address, Access access, EventLoop loop, Consumer<Event> events) {
        this.number = number;
        this.address = address;
        this.access = access;
        this.loop = loop;
        this.events = events;
    }

    /** Connects; answers with Opened or Lost. */
    public void open() {
        if (closed) return;
        try {
            channel = Channels.to(address, access)
                    .directExecutor()
                    .eventLoopGroup(loop)
                    .channelType(NioSocketChannel.class)
                    .build();
            connect();
        } catch (IOException | RuntimeException invalid) {
            tellLost("", String.valueOf(invalid.getMessage()));
        }
    }

    /** {@return false: the coordinator has not read for so long that the stream is useless} */
    public boolean send(SessionRequest frame) {
        if (call == null || closed || lost) return true;
        waiting = call.isReady() ? 0 : waiting + 1;
        if (waiting > MAX_WAITING) return false;
        call.sendMessage(frame);
        return true;
    }

    /** {@return done once the connection has ended, or the wait for its end has timed out} */
    public CompletableFuture<Void> close() {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        closed = true;
        if (call != null) call.cancel("the worker left the stream", null);
        if (channel == null) {
            ended.complete(null);
        } else {
            channel.shutdownNow();
            awaitEnd(ended, System.nanoTime());
        }
        return ended;
    }

    private void awaitEnd(CompletableFuture<Void> ended, long since) {
        boolean late = System.nanoTime() - since > TimeUnit.MILLISECONDS.toNanos(CLOSE_TIMEOUT_MILLIS);
        if (channel.isTerminated() || late) ended.complete(null);
        else loop.schedule(() -> awaitEnd(ended, since), 1, TimeUnit.MILLISECONDS);
    }

    private void connect() {
        if (closed) return;
        ConnectivityState state = channel.getState(true);
        if (state == ConnectivityState.READY) {
            converse();
            events.accept(new Event.Opened(number));
        } else if (state == ConnectivityState.TRANSIENT_FAILURE) {
            // The call fails at once, and its status says why there is no connection.
            converse();
        } else {
            channel.notifyWhenStateChanged(state, () -> loop.execute(this::connect));
        }
    }

    private void converse() {
        call = channel.newCall(WorkerServiceGrpc.getSessionMethod(), CallOptions.DEFAULT);
        call.start(new Listener(), Channels.metadata(access));
        // Frames are always read: the machine never blocks.
        call.request(Integer.MAX_VALUE);
    }

    private void tellLost(String code, String detail) {
        if (lost || closed) return;
        lost = true;
        events.accept(new Event.Lost(number, code, detail));
    }

    private final class Listener extends ClientCall.Listener<SessionResponse> {
        @Override
        public void onMessage(SessionResponse frame) {
            if (!closed) events.accept(new Event.Received(number, frame));
        }

        @Override
        public void onClose(Status status, Metadata trailers) {
            Reason reason = Reason.of(status, Route.secure(address) ? address : null);
            tellLost(reason.code(), reason.detail());
        }
    }
}
