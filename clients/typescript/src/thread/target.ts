/** The target for gRPC, and its TLS errors with advice. */

const UNKNOWN =
  "its certificate is from an authority that is unknown here: name the file with the CA's certificate " +
  "(ROSTERD_CA, rootCertificates)";
const OTHER_NAME = "its certificate is not for this name: connect by a name that it has";
const NO_TLS = "it does not speak TLS: use http:// where the network is trusted";
const WANTS_CERTIFICATE = "it wants a client certificate: give one and its key (ROSTERD_CERT, ROSTERD_KEY)";

/** Errors of Node's TLS, with advice. Node only provides their texts. */
const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [/unable to get (local )?issuer|self[- ]signed certificate|unable to verify the first certificate/i, UNKNOWN],
  [/certificate has expired/i, "its certificate has expired: renew it there, and look at this machine's clock"],
  [/altnames|Hostname\/IP does not match/i, OTHER_NAME],
  [/wrong version number|packet length too long/i, NO_TLS],
  [/certificate required|handshake failure/i, WANTS_CERTIFICATE],
];

/** A TLS failure with advice; as a rejection, since retrying does not fix it. */
export function explained(code: string, detail: string): { code: string; detail: string } {
  const remedy = REMEDIES.find(([text]) => text.test(detail))?.[1];
  return remedy === undefined ? { code, detail } : { code: "UNAUTHENTICATED", detail: `${remedy} (${detail})` };
}

/** gRPC's error for a failed connection, without its decoration. */
export function plain(details: string): string {
  const text = details
    .replace(/^No connection established\. Last error: /, "")
    .replace(/\.? Resolution note: .*$/s, "");
  return text.replace(/^Error: /, "").trim();
}

/** Without a port it uses the scheme's default. */
export function targetOf(address: string): string {
  if (!address.includes("://")) return address;
  const url = new URL(address);
  return `${url.hostname}:${url.port || (url.protocol === "https:" ? "443" : "80")}`;
}
