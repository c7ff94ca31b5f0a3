package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slimwire/swp/profiles"
	"github.com/slimwire/swp/profiles/artifact"
	"github.com/slimwire/swp/profiles/rpc"
	"github.com/slimwire/swp/transport"
	"github.com/slimwire/swp/transport/endpoint"
	"github.com/slimwire/swp/transport/transporttest"
)

func TestWhatIsTriedAgain(t *testing.T) {
	refused := func(code string, retryable bool) error {
		return &profiles.PeerError{Profile: artifact.Name, Code: code, Later: retryable}
	}
	cut := profiles.Errorf(profiles.InvalidFrame, "stream ends inside a frame")
	for _, test := range []struct {
		name string
		err  error
		lost bool
		want bool
	}{
		{"a connection that was lost", io.ErrUnexpectedEOF, true, true},
		{"one that was lost inside a frame", cut, true, true},
		{"a frame that is no good, on a connection that is there", cut, false, false},
		{"an end before anything was moved", io.ErrUnexpectedEOF, false, false},
		{"a failure of this side", &finalError{io.ErrUnexpectedEOF}, true, false},
		{"wrapped", fmt.Errorf("w: %w", &finalError{io.ErrUnexpectedEOF}), true, false},
		{"BUSY", refused(artifact.CodeBusy, true), false, true},
		{"ORDERING", refused(artifact.CodeOrdering, false), false, true},
		{"NOT_FOUND", refused(artifact.CodeNotFound, false), true, false},
		{"INTEGRITY_MISMATCH", refused(artifact.CodeIntegrity, false), true, false},
		{"QUOTA_EXCEEDED", refused(artifact.CodeQuota, true), true, false},
		{"a call that may be made again", &rpc.Error{Code: "unavailable", Retryable: true}, false, true},
		{"a call that may not", &rpc.Error{Code: "internal"}, true, false},
		{"too much at once", profiles.Busy("", ""), false, true},
	} {
		if got := mayPass(test.err, func() bool { return test.lost }); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if !errors.Is(&finalError{io.EOF}, io.EOF) {
		t.Error("a failure of this side hides its cause")
	}
}

// A partner that cannot be asked now is no reason to say that an artifact is not there.
func TestAnArtifactOfAPartnerIsLookedForUntilThePartnerAnswers(t *testing.T) {
	for _, test := range []struct {
		answer rpc.Error
		none   bool // it lists none
		again  bool
	}{
		{rpc.Error{Code: rpc.CodeUnavailable, Message: "partner b cannot be reached now", Retryable: true}, false, true},
		{rpc.Error{Code: rpc.CodeInternal, Message: "the link to the partner was lost"}, false, false},
		{rpc.Error{Code: rpc.CodeUnknownMethod, Message: "there is no partner b"}, true, false},
	} {
		says := func(result string, err error) rpc.Method {
			return rpc.Method{Inline: func(*profiles.Request, []byte) ([]byte, error) { return []byte(result), err }}
		}
		p, err := rpc.New(rpc.Options{
			Methods: map[string]rpc.Method{artifact.MethodList: says(`{"artifacts":[]}`, nil)},
			Toward:  func(string, string) (rpc.Method, error) { return says("", &test.answer), nil },
			Info: func(profiles.Session) rpc.Info {
				return rpc.Info{Extensions: map[uint64][]uint64{0: {profiles.ExtTarget}}}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		registry, err := profiles.NewRegistry(p)
		if err != nil {
			t.Fatal(err)
		}
		found, err := attachedTo(t, registry).FindArtifact(t.Context(), "b/report")
		if found != nil || (err == nil) != test.none || err != nil && mayPass(err, nil) != test.again {
			t.Errorf("%v: found %v, %v", &test.answer, found, err)
		}
	}
}

// A peer that is stopped for a moment, and so does not answer the first question soon, has the digest
// of an artifact all the same, and confirms what is sent to it. So does one whose process ends over
// that question, and which another process replaces.
func TestABusyPeerIsAskedForWhatTheWorkNeeds(t *testing.T) {
	for name, first := range map[string]time.Duration{"is stopped for a moment": 8 * time.Second, "ends": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, err := rpc.New(rpc.Options{Methods: map[string]rpc.Method{artifact.MethodList: {Inline: func(*profiles.Request, []byte) ([]byte, error) {
					return []byte(`{"artifacts":[{"artifact_id":"report","size":1}]}`), nil
				}}}})
				if err != nil {
					t.Fatal(err)
				}
				registry, err := profiles.NewRegistry(p)
				if err != nil {
					t.Fatal(err)
				}
				ep, err := endpoint.New(endpoint.Options{Registry: registry, Observer: endpoint.Discard})
				if err != nil {
					t.Fatal(err)
				}
				defer ep.Close()
				dialled := 0
				kept := Keep(KeepOptions{Dial: func(context.Context) (*Client, error) {
					near, far := transport.NewPipe(transport.PipeOptions{A: transporttest.Client, B: transporttest.Server})
					switch dialled++; {
					case dialled > 1:
						ep.Attach(far)
					case first > 0:
						time.AfterFunc(first, func() { ep.Attach(far) })
					default:
						time.AfterFunc(time.Second, func() { _ = far.Close(0) })
					}
					return Attach(near, Options{})
				}})
				defer kept.Close()
				c, err := kept.Get(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				found, _, err := c.lookUp(t.Context(), "report", true)
				if err != nil || found == nil || found.Size != 1 {
					t.Errorf("found %+v, %v", found, err)
				}
				lane, err := c.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err = c.sync(t.Context(), lane); err != nil {
					t.Errorf("confirmation: %v", err)
				}
			})
		})
	}
}
