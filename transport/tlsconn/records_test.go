package tlsconn_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"net"
	"strings"
	"testing"

	"github.com/slimwire/swp/transport"
)

// forger is a client that finishes an honest handshake and then writes TLS
// records of its own making, encrypted as they should be.
type forger struct {
	t      *testing.T
	tcp    net.Conn
	tls    *tls.Conn
	hash   func() hash.Hash
	key    int
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// Record and handshake types of RFC 8446.
const (
	typeAlert     = 21
	typeHandshake = 22
	typeData      = 23
)

var (
	keyUpdate        = []byte{24, 0, 0, 1, 0}
	certificateWish  = []byte{13, 0, 0, 11, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3}
	newSessionTicket = append([]byte{4, 0, 0, 14, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, 'x', 0, 0)
)

func newForger(t *testing.T, addr string, policy *transport.Policy) *forger {
	t.Helper()
	tcp, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	var keys bytes.Buffer
	config := policy.Client("127.0.0.1")
	config.KeyLogWriter = &keys
	f := &forger{t: t, tcp: tcp, tls: tls.Client(tcp, config)}
	if err := f.tls.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	switch suite := f.tls.ConnectionState().CipherSuite; suite {
	case tls.TLS_AES_128_GCM_SHA256:
		f.hash, f.key = sha256.New, 16
	case tls.TLS_AES_256_GCM_SHA384:
		f.hash, f.key = sha512.New384, 32
	default:
		t.Skipf("records of %s are not forged here", tls.CipherSuiteName(suite))
	}
	for line := range strings.Lines(keys.String()) {
		if fields := strings.Fields(line); fields[0] == "CLIENT_TRAFFIC_SECRET_0" {
			if f.secret, err = hex.DecodeString(fields[2]); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.rekey(f.secret)
	return f
}

func (f *forger) rekey(secret []byte) {
	block, err := aes.NewCipher(f.expand(secret, "key", f.key))
	if err != nil {
		f.t.Fatal(err)
	}
	if f.aead, err = cipher.NewGCM(block); err != nil {
		f.t.Fatal(err)
	}
	f.secret, f.iv, f.seq = secret, f.expand(secret, "iv", 12), 0
}

// expand is HKDF-Expand-Label with an empty context.
func (f *forger) expand(secret []byte, label string, n int) []byte {
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(append(info, "tls13 "+label...), 0)
	out, err := hkdf.Expand(f.hash, secret, string(info), n)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// record seals one record; data may be empty.
func (f *forger) record(kind byte, data []byte) []byte {
	inner := append(append([]byte(nil), data...), kind)
	header := []byte{typeData, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(header[3:], uint16(len(inner)+f.aead.Overhead()))
	nonce := append([]byte(nil), f.iv...)
	for i := range 8 {
		nonce[4+i] ^= byte(f.seq >> (56 - 8*i))
	}
	f.seq++
	return f.aead.Seal(header, nonce, inner, header)
}

// update seals a KeyUpdate and goes on with the next key.
func (f *forger) update() []byte {
	r := f.record(typeHandshake, keyUpdate)
	f.rekey(f.expand(f.secret, "traffic upd", f.hash().Size()))
	return r
}
