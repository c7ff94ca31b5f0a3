// Package audit keeps the trail of exchanges: one record for each, allowed or denied, from
// which whoever has the files can tell later whether a record was changed, removed, added or
// moved.
//
// A trail is a directory of segments, 00000001.jsonl and so on. A segment is lines of JSON
// with the field names of the Elastic Common Schema; what it has no name for begins with
// "swp.". Each line ends with its event.sequence, which counts from 1 through all segments,
// and its event.hash:
//
//	hash(n) = SHA-256(hash(n-1) ‖ octets of line n before ,"event.hash")
//
// in hexadecimal; hash(0) is 32 zero octets. Once a minute and at a stop a checkpoint signs
// the hash of the record before it with the key of the endpoint, whose certificate is in the
// same segment. Up to the last checkpoint Verify finds every fault; of what comes behind it,
// nothing is proven yet.
//
// The oldest segments are removed when the trail has reached its size. A record says so
// first, which is how that differs from a removal by somebody else.
//
// Payloads are never in a trail, only their SHA-256.
package audit
