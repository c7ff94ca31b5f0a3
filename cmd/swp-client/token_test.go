package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tokens makes keys and tokens of issuers, whose key follows from their name:
//
//	token key ISSUER                             its public key
//	token sign ISSUER SUBJECT AUD SCOPE SECONDS  a token that is good for so long
func tokens() {
	args := os.Args[2:]
	seed := sha256.Sum256([]byte(args[0]))
	key := ed25519.NewKeyFromSeed(seed[:])
	if os.Args[1] == "key" {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err == nil {
			err = pem.Encode(os.Stdout, &pem.Block{Type: "PUBLIC KEY", Bytes: der})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	seconds, err := strconv.Atoi(args[4])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	enc := base64.RawURLEncoding.EncodeToString
	text := enc([]byte(`{"alg":"EdDSA"}`)) + "." + enc(fmt.Appendf(nil, `{"iss":%q,"sub":%q,"aud":%q,"scope":%q,"exp":%d}`,
		args[0], args[1], args[2], args[3], time.Now().Unix()+int64(seconds)))
	fmt.Println(text + "." + enc(ed25519.Sign(key, []byte(text))))
}
