package config

import (
	"cmp"
	"time"
)

// Artifact configures profile 14.
type Artifact struct {
	Quota                Quota         `yaml:"quota"`              // in octets; includes unfinished uploads
	Items                int           `yaml:"items"`              // artifacts and uploads
	ItemsPerIdentity     int           `yaml:"items_per_identity"` //
	MaxSize              Size          `yaml:"max_size"`           // of one artifact; 0 = quota.per_identity
	Metadata             Size          `yaml:"metadata"`           // of one artifact, at most
	Chunk                Size          `yaml:"chunk"`              // octets in a chunk that is sent
	Window               int           `yaml:"window"`             // chunks of one upload that wait for their ACK
	Downloads            int           `yaml:"downloads"`          // GETs that are answered at once
	DownloadsPerIdentity int           `yaml:"downloads_per_identity"`
	Abandoned            time.Duration `yaml:"abandoned"` // how long an upload is kept that nothing is heard of
	Retention            time.Duration `yaml:"retention"` // 0 = until its owner has it forgotten
}

// defaultArtifact has the defaults.
func defaultArtifact() Artifact {
	return Artifact{
		Quota: Quota{Total: 50 << 30, PerIdentity: 10 << 30},
		Items: 65_536, ItemsPerIdentity: 16_384,
		Metadata: 64 << 10, Chunk: 256 << 10, Window: 64,
		Downloads: 256, DownloadsPerIdentity: 16,
		Abandoned: 24 * time.Hour,
	}
}

// chunkOverhead is an upper bound of the octets of a frame besides the data of the
// chunk: an artifact_id, a resume_token, numbers, keys and an envelope.
const chunkOverhead = 1 << 10

// ArtifactChunk is artifact.chunk, or less if the limits require it.
func (c *Config) ArtifactChunk() Size { return max(1, min(c.Artifact.Chunk, c.mostChunk())) }

// ArtifactSize is artifact.max_size, or the quota of one identity.
func (c *Config) ArtifactSize() Size { return cmp.Or(c.Artifact.MaxSize, c.Artifact.Quota.PerIdentity) }

func (c *Config) mostChunk() Size {
	return min(4<<20, c.Limits.PayloadBytes-chunkOverhead, c.Limits.FrameBytes-chunkOverhead)
}

func (c *Config) checkArtifact(p *problems) {
	a := c.Artifact
	if a.Quota.Total < minQuota {
		p.add("artifact.quota.total", "is %s, want at least %s", a.Quota.Total, minQuota)
	}
	if a.Quota.PerIdentity < minQuota || a.Quota.PerIdentity > a.Quota.Total {
		p.add("artifact.quota.per_identity", "is %s, want %s to artifact.quota.total, which is %s", a.Quota.PerIdentity, minQuota, a.Quota.Total)
	}
	if a.MaxSize > a.Quota.PerIdentity {
		p.add("artifact.max_size", "is %s, more than artifact.quota.per_identity, which is %s", a.MaxSize, a.Quota.PerIdentity)
	}
	if most := Size(1 << 20); a.Metadata < 1 || a.Metadata > most {
		p.add("artifact.metadata", "is %s, want 1 to %s", a.Metadata, most)
	}
	if most := c.mostChunk(); p.isSet("artifact.chunk") && (a.Chunk < 1 || a.Chunk > most) {
		p.add("artifact.chunk", "is %s, want 1 to %s: 4MiB, and what fits limits.payload_bytes and limits.frame_bytes", a.Chunk, max(1, most))
	}
	for _, row := range []struct {
		key         string
		value, most int
	}{
		{"items", a.Items, 1 << 20},
		{"items_per_identity", a.ItemsPerIdentity, a.Items},
		{"window", a.Window, 1024},
		{"downloads", a.Downloads, 4096},
		{"downloads_per_identity", a.DownloadsPerIdentity, a.Downloads},
	} {
		if row.value < 1 || row.value > row.most {
			p.add("artifact."+row.key, "is %d, want 1 to %d", row.value, row.most)
		}
	}
	if a.Abandoned <= 0 {
		p.add("artifact.abandoned", "is 0, want a duration above 0, such as 24h")
	}
}
