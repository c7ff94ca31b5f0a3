package conformance

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// Run loads and plays the descriptors at paths, one after the other, each in
// isolation, and calls each with every result as it comes. Neither a broken
// descriptor nor an input that nothing plays stops the run: both fail.
func Run(ctx context.Context, target Target, paths []string, each func(Result)) []Result {
	results := make([]Result, 0, len(paths))
	for _, path := range paths {
		r := runPath(ctx, target, path)
		results = append(results, r)
		if each != nil {
			each(r)
		}
	}
	return results
}

func runPath(ctx context.Context, target Target, path string) Result {
	v, err := Load(path)
	if err != nil {
		return Result{VectorID: filepath.Base(path), Path: path, Detail: err.Error()}
	}
	return v.Play(ctx, target)
}

// Play has target play the vector and judges what it saw.
func (v *Vector) Play(ctx context.Context, target Target) Result {
	r := Result{VectorID: v.ID, Path: v.Path, Expected: v.Outcome, ExpectedCode: v.Code, ExpectedErrorCode: v.ErrorCode}
	if err := v.artifact.check(); err != nil {
		r.Detail = err.Error()
		return r
	}
	if v.Outcome == "process_check" {
		v.process(&r)
		return r
	}
	for i := range v.scenes {
		if fault := v.scenes[i].play(ctx, target, &r); fault != "" {
			r.Detail = fault
			if name := v.scenes[i].name; name != "" {
				r.Detail = fmt.Sprintf("%s (%s): %s", name, v.scenes[i].why, fault)
			}
			return r
		}
	}
	r.Pass = true
	return r
}

// play plays one scene. If it is the vector itself its outcome becomes the
// observed one.
func (sc *scene) play(ctx context.Context, target Target, r *Result) string {
	in := sc.input
	seen, err := target.Play(ctx, &in)
	if err != nil {
		return err.Error()
	}
	if sc.main >= 0 && sc.main < len(seen.Steps) {
		main := resultOf(&seen.Steps[sc.main])
		r.Observed, r.ObservedCode, r.ObservedErrorCode = main.outcome, main.code, main.errorCode
		// The vector's own verdict is reported before anything else about it.
		if fault := compareOutcome(sc.expect[sc.main], main); fault != "" {
			return fault
		}
	}
	return sc.compare(seen)
}

// process judges evidence.
func (v *Vector) process(r *Result) {
	const code = "COMPATIBILITY_POLICY"
	r.ObservedCode = code
	if err := v.checkProcess(time.Now()); err != nil {
		r.Observed, r.ObservedErrorCode, r.Detail = "reject", "ERR_"+code, err.Error()
		return
	}
	r.Observed = "process_check"
	if v.Code != "" && v.Code != code {
		r.Detail = fmt.Sprintf("code mismatch: expected=%s observed=%s", v.Code, code)
		return
	}
	if v.ErrorCode != "" {
		r.Detail = fmt.Sprintf("canonical code mismatch: expected=%s observed=", v.ErrorCode)
		return
	}
	r.Pass = true
}
