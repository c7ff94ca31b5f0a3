package sdl_test

import (
	"testing"

	"github.com/slimwire/swp/sdl"
	"github.com/slimwire/swp/sdl/canonical"
)

// What hash and how many octets each built-in schema has is part of the wire.
func TestBuiltInSchemasAreThoseOfEveryone(t *testing.T) {
	for _, test := range []struct {
		ct, id string
		octets int
	}{
		{sdl.CTTask, "sha256:84bddbab47fbbb7bd7f9122c440db6b922649f47f43e78e9a8e237c624a3d348", 706},
		{sdl.CTToolCall, "sha256:6c82884fe6bae588dc2d12af14883a948b07eacce1d45b9c7db4c93b90673ead", 364},
		{sdl.CTToolResult, "sha256:4fa3071df2df806afe35526ccf442b9647beb4cefb0ff30da93d303e76981bb6", 228},
		{sdl.CTState, "sha256:adf31fbaa9e6eecf1b64fa3cfc9bcf673cb7253decbe50d006d6cc3cf8f1675e", 136},
		{sdl.CTArtifact, "sha256:9b02c0a327d213ab0b8643f7ebc95d0353c3c086d14d640a83386a5b4967c211", 161},
		{sdl.CTError, "sha256:b8fc4585fe13cb984434235f7801fbb739abb2375b38e4e6a105522fc39aa3e0", 294},
		{sdl.CTNegotiation, "sha256:eb9601582f1259745cf929b937c9a60c8914deea991b716c2b47496c22b21c38", 273},
		{sdl.CTTrustSync, "sha256:679444fcfb09aba3d3b5485d6bdc9f82389b5c7b3d12cb80c7767005b046b463", 631},
		{sdl.CTSession, "sha256:995e1b527ab97aa05a1ae39bf4cabbad696918eb3d810d5baa699c817b2673f9", 346},
	} {
		descriptor := sdl.Schema(test.ct)
		if id, _ := descriptor.Get("id").Text(); id != test.id {
			t.Errorf("%s: %s, want %s", test.ct, id, test.id)
		}
		document := descriptor.Get("embedded")
		if got := canonical.Hash(document); got != test.id || document.JSONSize() != test.octets {
			t.Errorf("%s: %s, %d octets, want %s, %d", test.ct, got, document.JSONSize(), test.id, test.octets)
		}
	}
	if !sdl.Schema("task.v2").IsNull() {
		t.Error("a content type that is unknown has a schema")
	}
}
