package sdlfront

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/slimwire/swp/internal/memory"
	"github.com/slimwire/swp/profiles"
	carriage "github.com/slimwire/swp/profiles/sdl"
	"github.com/slimwire/swp/sdl"
)

// Media types of envelopes.
const (
	mediaJSON = "application/json"
	mediaCBOR = "application/cbor"
)

// Handler returns the handler for Path. It does not outlive the Front.
func (f *Front) Handler(o HTTP) http.Handler { return &handler{f, o} }

type handler struct {
	*Front
	HTTP
}

// ServeHTTP implements http.Handler.
func (f *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != Path:
		http.NotFound(w, r)
	case upgrades(r):
		f.connect(w, r)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "an envelope of A2A-SDL is a POST, or a message of a WebSocket", http.StatusMethodNotAllowed)
	default:
		f.post(w, r)
	}
}

// post answers one envelope.
func (f *handler) post(w http.ResponseWriter, r *http.Request) {
	caller := f.Caller(r)
	form, refused := sdl.FormOfMedia(r.Header.Get("Content-Type"))
	out := response{f: f.Front, w: w, form: form}
	if strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Accept"), ",")), mediaCBOR) {
		out.form = sdl.CBOR
	}
	switch coding := r.Header.Get("Content-Encoding"); {
	case !f.admit(caller): // before the body is read
		out.unread(errRate)
		return
	case refused != nil:
		out.unread(refused)
		return
	case coding != "" && !strings.EqualFold(coding, "identity"):
		out.unread(errCoding)
		return
	}
	held := f.opts.Memory.Hold(caller)
	defer held.Release()
	body, refused := f.body(w, r, caller, held)
	if refused != nil {
		out.unread(refused)
		return
	}
	if own, refused := sdl.FormOf(body); refused != nil {
		out.refuse(refused)
		return
	} else if own != form {
		out.refuse(errEncoding)
		return
	}
	ctx, err := f.onward(r)
	if err != nil {
		e := profiles.AsError(err)
		out.refuse(refusedBy(e))
		return
	}
	on, err := f.Session(caller)
	if err != nil {
		out.refuse(errNobody)
		return
	}
	f.counts.posts.Add(1)
	answer, refused := f.pass(ctx, on, form, body)
	switch {
	case r.Context().Err() != nil: // nobody listens
	case refused != nil:
		out.refuse(refused)
	case answer == nil:
		w.WriteHeader(http.StatusNoContent)
	case !held.Answer(len(answer)):
		f.counts.dropped.Add(1)
		out.refuse(errAnswer)
	default:
		out.write(answer, form)
	}
}

// refusedBy is the refusal of headers.
func refusedBy(e *profiles.Error) *sdl.Error {
	if e.Code == profiles.SecurityPolicy {
		return sdl.Insecure(false, "%s", e.Text)
	}
	return sdl.Refuse(sdl.BadRequest, "%s", e.Text)
}

// body reads the body of a request, within its bounds in octets and time and as far as there is
// room for it.
func (f *handler) body(w http.ResponseWriter, r *http.Request, caller string, held *memory.Hold) ([]byte, *sdl.Error) {
	most, above := f.most(caller)
	size := r.ContentLength
	switch {
	case size > most:
		return nil, above
	case size < 0:
		size = most
	}
	rc := http.NewResponseController(w)
	deadline := time.Now().Add(f.opts.takes(size))
	_ = rc.SetReadDeadline(deadline) // not every ResponseWriter knows of deadlines
	octets, err := held.ReadAll(r.Context(), memory.Body{
		Reader: http.MaxBytesReader(w, r.Body, most), Announced: r.ContentLength, Twice: true, Conn: rc,
		Waited: func(d time.Duration) { _ = rc.SetReadDeadline(deadline.Add(d)) },
	})
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, above
	case errors.Is(err, memory.ErrFull):
		return nil, errBusy
	case err != nil: // the deadline stays: the rest is not waited for
		return nil, errTimeout
	}
	_ = rc.SetReadDeadline(time.Time{})
	return octets, nil
}

// onward returns the context for the one message of a request.
func (f *handler) onward(r *http.Request) (context.Context, error) {
	if f.Carried == nil {
		return r.Context(), nil
	}
	ctx, err := f.Carried(r)
	if err != nil {
		return nil, err
	}
	return profiles.WithForward(ctx, f.Carrier, profiles.Onward{}, nil), nil
}

// response writes one answer. form is that which the caller reads.
type response struct {
	f    *Front
	w    http.ResponseWriter
	form sdl.Form
}

// unread refuses an envelope whose body is not read: the connection ends with the answer.
func (p *response) unread(e *sdl.Error) {
	p.w.Header().Set("Connection", "close")
	p.refuse(e)
}

func (p *response) refuse(e *sdl.Error) {
	status := http.StatusOK
	if e == errRate || e == errBusy {
		status = http.StatusTooManyRequests
		p.w.Header().Set("Retry-After", "1")
	}
	p.send(status, p.f.refusal(p.form, e))
}

// write writes an answer of this endpoint, which is in the form of its request.
func (p *response) write(answer []byte, form sdl.Form) {
	v, refused := sdl.Decode(answer, form, sdl.Limits{MaxBytes: len(answer)})
	if refused != nil { // this endpoint, or a partner, has written what is none
		p.refuse(errLost)
		return
	}
	if form != p.form {
		answer = p.form.Append(nil, v)
	}
	status := http.StatusOK
	if reason, _ := v.Get("payload").Get("details").Get("reason").Text(); reason == carriage.ReasonRate || reason == carriage.ReasonConcurrency {
		if ct, _ := v.Get("ct").Text(); ct == sdl.CTError {
			status = http.StatusTooManyRequests
			p.w.Header().Set("Retry-After", "1")
		}
	}
	p.send(status, answer)
}

func (p *response) send(status int, answer []byte) {
	_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(p.f.opts.Write)) // not every ResponseWriter knows of deadlines
	h := p.w.Header()
	h.Set("Content-Type", mediaJSON)
	if p.form == sdl.CBOR {
		h.Set("Content-Type", mediaCBOR)
	}
	h.Set("Cache-Control", "no-store")
	p.w.WriteHeader(status)
	_, _ = p.w.Write(answer) //nolint:gosec // an envelope, which no browser takes for a page: see the type
}
