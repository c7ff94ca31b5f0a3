// Package passing carries the connections of peers from the process that accepted them to another
// process of the same endpoint.
//
// A Passer ends the transport security of a peer, and dials a Taker over mutual TLS or QUIC, as the
// peer dialled it. The first frame names the peer and has its certificates; then each stream is
// copied, octet by octet, with its ends and their codes. So the Taker serves the peer as if it had
// accepted the connection, and verifies its certificates as usual. It relies on the Passer for the proof
// of the peer's key.
//
// The processes know each other by certificates of keys that they make at their start (NewKey), and that
// they exchange by other means: there is no authority.
package passing

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"slices"
	"time"

	"github.com/slimwire/swp/frame"
	"github.com/slimwire/swp/transport"
)

// validity is how long the certificate of a key is valid. It ends with the process before.
const validity = 20 * 365 * 24 * time.Hour

// NewKey makes a key for one process, with a certificate for its name.
func NewKey(name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(identityOf(name))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), URIs: []*url.URL{at}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

func identityOf(name string) string { return "urn:swp:node:" + name }

// trusting returns credentials that trust the processes with the given certificates. Certificates that
// cannot be read are left out.
func trusting(own *tls.Certificate, certificates ...[]byte) *transport.Credentials {
	roots := x509.NewCertPool()
	for _, der := range certificates {
		if c, err := x509.ParseCertificate(der); err == nil {
			roots.AddCert(c)
		}
	}
	return &transport.Credentials{Certificate: own, Roots: roots}
}

// Kinds of a passed connection.
const (
	kindPeer = "peer" // a connection of SWP
	kindRaw  = "raw"  // octets of TCP
	kindAsk  = "ask"  // nothing: the answer is all
	kindGo   = "go"   // the same, and drain what this process has passed
	kindHold = "hold" // nothing: the connection stays open as long as both processes
	kindWork = "work" // what TakerOptions.Work serves
)

// hello is the first frame of a passed connection.
type hello struct {
	Kind        string   `json:"kind"`
	Transport   string   `json:"transport,omitempty"`    // of the peer
	Addr        string   `json:"addr"`                   // of the peer
	Own         []byte   `json:"own,omitempty"`          // leaf that the peer was shown
	Chain       [][]byte `json:"chain,omitempty"`        // of the peer, leaf first; without for plaintext
	ErrorFrames bool     `json:"error_frames,omitempty"` // of the listener

	Request json.RawMessage `json:"request,omitempty"` // of work
}

// answer is the second frame, in the other direction.
type answer struct {
	OK    bool   `json:"ok"`
	Why   string `json:"why,omitempty"`
	Final bool   `json:"final,omitempty"` // a repetition cannot succeed
}

// maxHello is the limit of both frames.
const maxHello = 128 << 10

func send(s transport.Stream, v any) error {
	body, err := json.Marshal(v)
	if err == nil && len(body) > maxHello {
		err = fmt.Errorf("passing: %d octets about a peer, at most %d", len(body), maxHello)
	}
	if err != nil {
		return err
	}
	_, err = s.Write(frame.Append(nil, body))
	return err
}

// receive reads one frame, and no octet behind it.
func receive(s transport.Stream, v any) error {
	var head [frame.HeaderSize]byte
	if _, err := io.ReadFull(s, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxHello {
		return fmt.Errorf("passing: first frame of %d octets, at most %d", n, maxHello)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(s, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// within does work on a stream that ends before late.
func within(s transport.Stream, late time.Time, work func() error) error {
	if err := errors.Join(s.SetReadDeadline(late), s.SetWriteDeadline(late)); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	return errors.Join(s.SetReadDeadline(time.Time{}), s.SetWriteDeadline(time.Time{}))
}

// about describes the peer of a connection.
func about(conn transport.Conn, errorFrames bool) hello {
	peer := conn.Peer()
	h := hello{Kind: kindPeer, Transport: peer.Transport, Addr: peer.Addr, ErrorFrames: errorFrames}
	if certified, ok := conn.(transport.Certified); ok {
		leaves := certified.Leaves()
		if leaves.Own != nil {
			h.Own = leaves.Own.Certificate[0]
		}
	}
	if chained, ok := conn.(transport.Chained); ok {
		for _, c := range chained.Chain() {
			h.Chain = append(h.Chain, c.Raw)
		}
	}
	return h
}

// peerOf makes the connection state of a described peer, and verifies it.
func (h *hello) peerOf(policy *transport.Policy) (*transport.Peer, tls.ConnectionState, error) {
	var state tls.ConnectionState
	if h.Transport == "tcp" && len(h.Chain) == 0 {
		return &transport.Peer{Identity: transport.LoopbackIdentity, Transport: h.Transport, Addr: h.Addr}, state, nil
	}
	if !slices.Contains([]string{"tls", "quic"}, h.Transport) {
		return nil, state, fmt.Errorf("passing: unknown transport %.20q", h.Transport)
	}
	state = tls.ConnectionState{Version: tls.VersionTLS13, NegotiatedProtocol: transport.ALPN, HandshakeComplete: true}
	for _, der := range h.Chain {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, state, err
		}
		state.PeerCertificates = append(state.PeerCertificates, c)
	}
	if err := policy.Recheck(state); err != nil {
		return nil, state, err
	}
	peer, err := policy.Peer(state, h.Transport, h.Addr)
	return peer, state, err
}
