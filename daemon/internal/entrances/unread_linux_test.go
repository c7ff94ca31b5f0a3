package entrances

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestOctetsThatNobodyHasReadAreSeen(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if unread(server) {
		t.Error("octets of a connection that has sent none")
	}
	if _, err := client.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); !unread(server); {
		if time.Since(began) > time.Minute {
			t.Fatal("octets that have arrived are not seen")
		}
		<-time.After(time.Millisecond)
	}
	for range 2 {
		if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if unread(server) {
		t.Error("octets are seen after all were read")
	}
	_ = server.Close()
	if unread(server) {
		t.Error("octets of a closed connection")
	}
}
