// Package tune chooses the strides of a tree for the table that it is to hold.
//
//	sorted masks --ShapeOf, one pass--> Shape: nodes of any level, lookups that come to it, how they spread
//	Shape --Count--> nodes and bytes of any list of strides, exactly
//	Shape --Search--> the list that is best by bytes, reads and levels, exactly
//	Shape --Model.On, Rank--> the lists with the least predicted time
//	trees --Meter--> measured times --Fit--> Model
//
// docs/tune.md says how it works, flavors.Choice how a working engine goes over to other strides.
package tune
