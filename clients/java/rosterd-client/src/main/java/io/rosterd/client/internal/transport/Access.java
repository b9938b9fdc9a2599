package io.rosterd.client.internal.transport;

import io.rosterd.client.internal.machine.Address;
import io.rosterd.client.internal.machine.Route;

/**
 * How streams are secured.
 *
 * @param credential the secret; empty: none
 * @param insecureCredential it may go to another machine in plain text
 * @param rootCertificates the authorities for coordinators
 * @param clientCertificate the worker's own certificate
 * @param clientKey its key
 */
public record Access(
        String credential, boolean insecureCredential, Pem rootCertificates, Pem clientCertificate, Pem clientKey) {

    /** {@return whether others could read the credential on its way to this coordinator} */
    public boolean exposes(String address) {
        boolean plain = !Route.secure(address) && !new Address(address).isLoopback();
        return !credential.isEmpty() && !insecureCredential && plain;
    }

    /** {@return the message about it} */
    public static String exposed(String address) {
        return "server '" + address + "': the credential would go there in plain text, for all on the way to read: use"
                + " https://, or say that the network is trusted (insecureCredential,"
                + " ROSTERD_INSECURE_CREDENTIAL=true)";
    }

    @Override
    public String toString() {
        return "Access";
    }
}
