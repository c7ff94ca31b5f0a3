// Package audit stores the trail of exchanges: a record for each, allowed or denied. A
// reader of the files can detect whether a record was changed, removed, added or moved.
//
// A trail is a directory of segments, 00000001.jsonl and so on. A segment consists of lines
// of JSON with the field names of the Elastic Common Schema; other fields begin with
// "swp.". Each line ends with its event.sequence, which counts from 1 through all segments,
// and its event.hash:
//
//	hash(n) = SHA-256(hash(n-1) ‖ octets of line n before ,"event.hash")
//
// in hexadecimal; hash(0) is 32 zero octets. Once a minute and at a stop, a checkpoint
// signs the hash of the record before it with the key of the endpoint; the certificate is
// in the same segment. Verify finds every fault up to the last checkpoint. The records
// after it are not proven yet.
//
// When the trail has reached its size, the oldest segments are removed. A record announces
// this first, which distinguishes it from a removal by others.
//
// A trail never contains payloads, only their SHA-256.
package audit
