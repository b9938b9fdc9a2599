package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"regexp"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// handshakes are TLS credentials that keep the error of the last handshake: gRPC passes on only its text.
type handshakes struct {
	credentials.TransportCredentials
	mutex  sync.Mutex
	failed error
}

func (h *handshakes) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	h.mutex.Lock()
	h.failed = err
	h.mutex.Unlock()
	return conn, info, err
}

func (h *handshakes) Clone() credentials.TransportCredentials {
	// gRPC clones the credentials once per connection, and a stream has one: the clones share their state.
	return h
}

// remedy is advice for a failed handshake; empty: the failure is not about TLS.
func (h *handshakes) remedy() string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
		alert   tls.AlertError
	)
	switch {
	case h.failed == nil:
		return ""
	case errors.As(h.failed, &unknown):
		return "its certificate is from an authority that is unknown here: name the file with the CA's certificate " +
			"(ROSTERD_CA, WithRootCertificates)"
	case errors.As(h.failed, &name):
		return "its certificate is not for this name: connect by a name that it has"
	case errors.As(h.failed, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired: renew it there, and look at this machine's clock"
	case errors.As(h.failed, &invalid):
		return "its certificate is not valid"
	case errors.As(h.failed, &record):
		return "it does not speak TLS: use http:// where the network is trusted"
	case errors.As(h.failed, &alert):
		return wantsCertificate
	default:
		return ""
	}
}

const wantsCertificate = "it wants a client certificate: give one and its key (ROSTERD_CERT, ROSTERD_KEY)"

// whyLost is the name of a gRPC status, or empty, and a text with advice.
func whyLost(err error, tls *handshakes) (code, detail string) {
	found := status.Convert(err)
	detail = plain(found.Message())
	if tls != nil {
		remedy := tls.remedy()
		// With TLS 1.3 a server asks for the certificate after the client has finished.
		if strings.Contains(detail, "tls: certificate required") || strings.Contains(detail, "tls: bad certificate") {
			remedy = wantsCertificate
		}
		if remedy != "" {
			// As a rejection: retrying does not fix it.
			return codeName(codes.Unauthenticated), remedy + " (" + detail + ")"
		}
	}
	return codeName(found.Code()), detail
}

var (
	wrapping = regexp.MustCompile(`^(connection error: desc = |transport: |error reading from server: )`)
	quoted   = regexp.MustCompile(`^"(.*)"$`)
)

// plain is gRPC's reason for a failed connection, without the text around it.
func plain(text string) string {
	for {
		shorter := wrapping.ReplaceAllString(text, "")
		shorter = quoted.ReplaceAllString(shorter, "$1")
		if shorter == text {
			return strings.TrimPrefix(text, "Error while ")
		}
		text = shorter
	}
}

// codeName is the name of a status as the protocol of gRPC writes it.
func codeName(code codes.Code) string {
	names := [...]string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
		"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
	if int(code) < len(names) {
		return names[code]
	}
	return code.String()
}
