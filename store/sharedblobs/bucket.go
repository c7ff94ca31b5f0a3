package sharedblobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// BucketOptions configure a Bucket. Endpoint and Name are required.
type BucketOptions struct {
	// Endpoint is the URL of the server, without a path: https://s3.example.org. With http
	// nothing is encrypted.
	Endpoint string

	// Name is the name of an existing bucket. Prefix comes before all keys, for
	// buckets that have other objects, too; empty, or with a slash at its end.
	Name, Prefix string

	// Region is the region of the bucket. Empty asks the server.
	Region string

	// CredentialsFile is a file with credentials, in the format of ~/.aws/credentials, and
	// Profile a section of it; empty means "default". The file is read again when a server
	// asks for other credentials. Without a file they come from the environment
	// (AWS_ACCESS_KEY_ID and so on, then MINIO_ROOT_USER and so on), the files of the AWS and
	// MinIO clients in the home directory, or the metadata service of the machine.
	CredentialsFile, Profile string

	// TLS configures https; nil means the authorities of the system.
	TLS *tls.Config
}

// Bucket is a bucket of an S3-compatible server as Objects. It uses PutObject with a SHA-256
// that the server verifies, ranges of GetObject, DeleteObject, DeleteObjects and
// ListObjectsV2. If the server does not know If-None-Match for PutObject, two stores with
// different Records that open an empty bucket at the same moment do not notice each other
// before their next hourly search for objects without a record.
type Bucket struct {
	client       minio.Core
	transport    *http.Transport
	name, prefix string
}

var _ Objects = (*Bucket)(nil)

// attempts is how often a request is sent.
const attempts = 3

// NewBucket returns a Bucket. It does not connect. The credentials are in no error and no
// message.
func NewBucket(o BucketOptions) (*Bucket, error) {
	at, err := url.Parse(o.Endpoint)
	switch {
	case err != nil:
		return nil, errors.New("sharedblobs: Endpoint is not a URL") // err would show a password
	case at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		return nil, errors.New("sharedblobs: Endpoint: want http:// or https:// and a host")
	case at.User != nil || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" || at.Fragment != "":
		return nil, errors.New("sharedblobs: Endpoint: want a scheme, a host and a port only")
	case o.Name == "":
		return nil, errors.New("sharedblobs: BucketOptions.Name is required")
	case o.Prefix != "" && (!strings.HasSuffix(o.Prefix, "/") || strings.HasPrefix(o.Prefix, "/")):
		return nil, fmt.Errorf("sharedblobs: Prefix %q, want a slash at its end, and none at its beginning", o.Prefix)
	case o.Profile != "" && o.CredentialsFile == "":
		return nil, errors.New("sharedblobs: Profile is a section of CredentialsFile, which is empty")
	case o.TLS != nil && at.Scheme != "https":
		return nil, errors.New("sharedblobs: TLS needs an Endpoint that begins with https://")
	}
	transport, err := minio.DefaultTransport(at.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("sharedblobs: %w", err)
	}
	if o.TLS != nil {
		transport.TLSClientConfig = o.TLS.Clone()
	}
	client, err := minio.NewCore(at.Host, &minio.Options{
		Creds: o.credentials(), Secure: at.Scheme == "https", Transport: transport, Region: o.Region, MaxRetries: attempts,
	})
	if err != nil {
		return nil, fmt.Errorf("sharedblobs: %w", err)
	}
	return &Bucket{client: *client, transport: transport, name: o.Name, prefix: o.Prefix}, nil
}

func (o *BucketOptions) credentials() *credentials.Credentials {
	if o.CredentialsFile != "" {
		return credentials.NewFileAWSCredentials(o.CredentialsFile, o.Profile)
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.FileMinioClient{}, &credentials.IAM{},
	})
}

// String implements Objects.
func (b *Bucket) String() string {
	return fmt.Sprintf("%s/%s/%s", b.client.EndpointURL(), b.name, b.prefix)
}

// Close implements Objects.
func (b *Bucket) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// Put implements Objects.
func (b *Bucket) Put(ctx context.Context, key string, octets []byte) error {
	return b.put(ctx, key, octets, minio.PutObjectOptions{})
}

// Create implements Objects.
func (b *Bucket) Create(ctx context.Context, key string, octets []byte) (made bool, err error) {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	err = b.put(ctx, key, octets, o)
	if minio.ToErrorResponse(err).StatusCode == http.StatusPreconditionFailed {
		return false, nil
	}
	return err == nil, err
}

func (b *Bucket) put(ctx context.Context, key string, octets []byte, o minio.PutObjectOptions) error {
	sum := sha256.Sum256(octets)
	o.ContentType = "application/octet-stream"
	_, err := b.client.PutObject(ctx, b.name, b.prefix+key, bytes.NewReader(octets), int64(len(octets)), "", hex.EncodeToString(sum[:]), o)
	return known(err)
}

// ReadAt implements Objects.
func (b *Bucket) ReadAt(ctx context.Context, key string, p []byte, at int64) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	var o minio.GetObjectOptions
	if err := o.SetRange(at, at+int64(len(p))-1); err != nil {
		return 0, err
	}
	body, _, _, err := b.client.GetObject(ctx, b.name, b.prefix+key, o)
	if minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return 0, io.EOF
	}
	if err != nil {
		return 0, known(err)
	}
	defer func() { _ = body.Close() }() // it is read
	n, err = io.ReadFull(body, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// Delete implements Objects.
func (b *Bucket) Delete(ctx context.Context, keys ...string) error {
	if len(keys) == 1 {
		err := known(b.client.RemoveObject(ctx, b.name, b.prefix+keys[0], minio.RemoveObjectOptions{}))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	results, err := b.client.RemoveObjectsWithIter(ctx, b.name, func(yield func(minio.ObjectInfo) bool) {
		for _, key := range keys {
			if !yield(minio.ObjectInfo{Key: b.prefix + key}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err != nil {
		return known(err)
	}
	for result := range results {
		if failed := known(result.Err); failed != nil && !errors.Is(failed, fs.ErrNotExist) && err == nil {
			err = failed
		}
	}
	return err
}

// List implements Objects.
func (b *Bucket) List(ctx context.Context, prefix string, yield func(key string, written time.Time) bool) error {
	for object := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if object.Err != nil {
			return known(object.Err)
		}
		if !yield(strings.TrimPrefix(object.Key, b.prefix), object.LastModified) {
			return nil
		}
	}
	return ctx.Err()
}

// fullCodes are the codes of servers whose medium is full.
var fullCodes = []string{"XMinioStorageFull", "InsufficientStorage", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded"}

// known converts the error of a request.
func known(err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case answer.StatusCode == http.StatusInsufficientStorage, slices.Contains(fullCodes, answer.Code):
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	return err
}
