// Package wire is streams over gRPC. It knows frames only as messages, not their meaning.
package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
)

// PEM is a text, or a file that is read again for each connection: a renewed one is used from the next connection on.
type PEM struct {
	Text []byte
	File string
	// Variable is the environment variable that named the file.
	Variable string
}

func (p PEM) read() ([]byte, error) {
	if p.Text != nil || p.File == "" {
		return p.Text, nil
	}
	text, err := os.ReadFile(p.File)
	if err != nil {
		return nil, fmt.Errorf("%s=%s cannot be read: %w: name a PEM file", p.Variable, p.File, errors.Unwrap(err))
	}
	return text, nil
}

// Access is how connections are secured.
type Access struct {
	Credential         string
	InsecureCredential bool
	// Roots are the authorities for coordinators; empty: those of the system.
	Roots PEM
	// Certificate and Key are the worker's own.
	Certificate, Key PEM
	// Base is the program's TLS config; nil: none.
	Base *tls.Config
	// UserAgent is the name and version of this library.
	UserAgent string
}

// TLS is the config for a coordinator at an https:// address.
func (a *Access) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.Base != nil {
		config = a.Base.Clone()
	}
	roots, err := a.Roots.read()
	if err != nil {
		return nil, err
	}
	if roots != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(roots) {
			return nil, errors.New("root certificates: there is no certificate in the PEM text: give the CA's (ROSTERD_CA)")
		}
	}
	certificate, err := a.Certificate.read()
	if err != nil {
		return nil, err
	}
	key, err := a.Key.read()
	if err != nil {
		return nil, err
	}
	if (certificate == nil) != (key == nil) {
		return nil, errors.New("client certificate and key go together (ROSTERD_CERT, ROSTERD_KEY): give both or none")
	}
	if certificate != nil {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("client certificate and key: %w: give PEM texts that belong together", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Exposes reports whether others could read the credential on its way to this coordinator.
func (a *Access) Exposes(address string) bool {
	return a.Credential != "" && !a.InsecureCredential && !machine.Secure(address) && !loopback(address)
}

// Exposed is the error about it, with the remedy.
func Exposed(address string) error {
	return fmt.Errorf("server %q: the credential would go there in plain text, for all on the way to read: use https://, "+
		"or say that the network is trusted (WithInsecureCredential, ROSTERD_INSECURE_CREDENTIAL=true)", address)
}

// Trusts reports to which coordinators that only a Welcome named the worker may connect. With a credential or TLS:
// those at hosts that the user has configured (all names of loopback count as one), or that the user's own authorities
// certify.
func (a *Access) Trusts(given []string) func(address string) bool {
	hosts := make(map[string]bool)
	guarded := a.Credential != ""
	for _, address := range given {
		hosts[hostOrLoopback(address)] = true
		guarded = guarded || machine.Secure(address)
	}
	ownCA := a.Roots.Text != nil || a.Roots.File != "" || (a.Base != nil && a.Base.RootCAs != nil)
	return func(address string) bool {
		return !guarded || (ownCA && machine.Secure(address)) || hosts[hostOrLoopback(address)]
	}
}

func hostOrLoopback(address string) string {
	if loopback(address) {
		return "localhost"
	}
	return strings.ToLower(Host(address))
}

// Target is what gRPC connects to: host:port. Without a port it uses the scheme's default.
func Target(address string) (string, error) {
	if !strings.Contains(address, "://") {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return "", fmt.Errorf("server %q is no address: write host:port, http://host:port or https://host:port", address)
		}
		return address, nil
	}
	at, err := url.Parse(address)
	if err != nil || at.Hostname() == "" || (at.Path != "" && at.Path != "/") {
		return "", fmt.Errorf("server %q is no address: write host:port, http://host:port or https://host:port", address)
	}
	port := at.Port()
	switch {
	case at.Scheme != "http" && at.Scheme != "https":
		return "", fmt.Errorf("server %q: only http:// and https:// are known: write http://host:port or https://host:port", address)
	case port == "" && at.Scheme == "https":
		port = "443"
	case port == "":
		port = "80"
	}
	return net.JoinHostPort(at.Hostname(), port), nil
}

// Host is the host of an address, or empty.
func Host(address string) string {
	target, err := Target(address)
	if err != nil {
		return ""
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return ""
	}
	return host
}

func loopback(address string) bool {
	host := Host(address)
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
