package report

// Shard is what one part of a divided run says of itself, and of the whole it is a part of.
type Shard struct {
	Index int `json:"index"` // from 1
	Count int `json:"count"`
	// Selection is what the whole run was narrowed to.
	Selection ShardSelection `json:"selection"`
	// SelectionSHA256 digests the scenarios of the whole run and the profiles asked for.
	SelectionSHA256 string `json:"selectionSha256"`
	// CostsSHA256 digests the cost of each scenario of the whole run, by which it was divided.
	CostsSHA256 string `json:"costsSha256"`
	// Scenarios are those of this part.
	Scenarios []string `json:"scenarios"`
	// DiscoverySHA256 digests the RFC 8785 bytes of the discovery document.
	DiscoverySHA256 string   `json:"discoverySha256"`
	OptOuts         []string `json:"optOuts"`
	// RecoverySHA256 digests the recovery bounds claimed for the host, "" when no durability is claimed.
	RecoverySHA256 string `json:"recoverySha256,omitempty"`
	// Credentials are the labels of the keys the run was given.
	Credentials []string `json:"credentials"`
}

// ShardSelection is the selection as it was typed.
type ShardSelection struct {
	Scenarios    []string `json:"scenarios"`
	Requirements []string `json:"requirements"`
	Profiles     []string `json:"profiles"`
}
