package io.rosterd.client.internal.transport;

import io.grpc.Status;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Why a stream ended, with advice.
 *
 * @param code the name of a gRPC status; empty: it just ended
 * @param detail what is wrong, and what to do
 */
record Reason(String code, String detail) {
    private static final String UNKNOWN_AUTHORITY =
            "its certificate is from an authority that is unknown here: name the file with the CA's certificate"
                    + " (ROSTERD_CA, rootCertificates)";
    private static final String EXPIRED =
            "its certificate has expired: renew it there, and look at this machine's clock";
    private static final String OTHER_NAME = "its certificate is not for this name: connect by a name that it has";
    private static final String NO_TLS = "it does not speak TLS: use http:// if the network is trusted";
    private static final String WANTS_CERTIFICATE =
            "it wants a client certificate: give one and its key (ROSTERD_CERT, ROSTERD_KEY)";

    /** Errors of Java's TLS, with advice. Java only provides their texts. */
    private static final Map<Pattern, String> REMEDIES = remedies();

    private static Map<Pattern, String> remedies() {
        Map<Pattern, String> remedies = new LinkedHashMap<>();
        remedies.put(Pattern.compile("CertificateExpired|NotAfter|certificate_expired"), EXPIRED);
        remedies.put(
                Pattern.compile("No (name|subject alternative)[^:]* (matching|found)|No name matching"), OTHER_NAME);
        remedies.put(
                Pattern.compile("unable to find valid certification path|PKIX path|trustAnchors"), UNKNOWN_AUTHORITY);
        remedies.put(Pattern.compile("not an SSL/TLS record|Unsupported or unrecognized SSL message"), NO_TLS);
        remedies.put(Pattern.compile("certificate_required|bad_certificate|handshake_failure"), WANTS_CERTIFICATE);
        return remedies;
    }

    /** Secured: the address if it uses TLS, else null. */
    static Reason of(Status status, String secured) {
        String code = status.isOk() ? "" : status.getCode().name();
        List<String> texts = new ArrayList<>();
        if (status.getDescription() != null) texts.add(status.getDescription());
        for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
            String text = cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage();
            if (texts.stream().noneMatch(known -> known.contains(text))) texts.add(text);
        }
        String detail = texts.isEmpty() ? "the coordinator ended the stream" : String.join(": ", texts);
        // Without a connection there is no answer: the failure is one of TLS, or of the network.
        if (secured == null || status.getCode() != Status.Code.UNAVAILABLE) return new Reason(code, detail);
        for (Map.Entry<Pattern, String> remedy : REMEDIES.entrySet()) {
            if (remedy.getKey().matcher(detail).find()) {
                // As a rejection: retrying does not fix it.
                return new Reason("UNAUTHENTICATED", remedy.getValue() + " (" + secured + ": " + detail + ")");
            }
        }
        return new Reason(code, detail);
    }
}
