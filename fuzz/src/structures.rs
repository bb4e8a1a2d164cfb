//! Makes structures of `cuda.h` as lists of words.

use crate::fitting::EXTREMES;
use crate::known::Memory;
use crate::maker::Maker;

/// The type of semaphores that have a value.
const TIMELINE: u64 = 9;

/// The fields of a structure, laid out as C does.
#[derive(Default)]
struct Fields(Vec<u64>, usize);

impl Fields {
    fn u32(mut self, value: u64) -> Self {
        if self.1.is_multiple_of(8) {
            self.0.push(value & 0xFFFF_FFFF);
        } else if let Some(last) = self.0.last_mut() {
            *last |= value << 32;
        }
        self.1 += 4;
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.push(value);
        self.1 = 8 * self.0.len();
        self
    }
}

impl Maker<'_> {
    /// Makes the words of a structure, for structures that contain more than numbers.
    pub(crate) fn structure(&mut self, name: &str) -> Option<Vec<u64>> {
        if let Some(words) = self.own_params(name) {
            return Some(words);
        }
        let none = Fields::default();
        let fields = match name {
            "CUDA_MEMCPY2D" => {
                let fields = self.side(none, false, false);
                let fields = self.side(fields, false, false);
                let [width, height, _] = self.extent();
                fields.u64(width).u64(height)
            }
            "CUDA_MEMCPY3D" | "CUDA_MEMCPY3D_PEER" => {
                let peer = name.ends_with("PEER");
                let fields = self.side(none, true, peer);
                let fields = self.side(fields, true, peer);
                let [width, height, depth] = self.extent();
                fields.u64(width).u64(height).u64(depth)
            }
            "CUDA_ARRAY_DESCRIPTOR" => {
                let extreme = self.choose(EXTREMES);
                let fields = none.u64(self.pick(&[64], &[0, 1, 33]));
                let fields = fields.u64(self.pick(&[16, 16, 0], &[1, extreme]));
                self.elements(fields)
            }
            "CUDA_ARRAY3D_DESCRIPTOR" => self.array(none),
            "CUDA_RESOURCE_DESC" => self.resource(none),
            "CUDA_TEXTURE_DESC" => {
                let mut fields = none;
                for _ in 0..3 {
                    fields = fields.u32(self.pick(&[0, 1, 2, 3], &[4]));
                }
                fields = fields.u32(self.pick(&[0, 0, 1], &[2]));
                let flags = self.pick(&[2, 3, 0x12], &[0, 1, 0x22, 0x42, 4]);
                let fields = fields.u32(flags).u32(self.below(3) as u64);
                let fields = fields.u32(self.pick(&[0, 1], &[2]));
                let clamp = |number: usize| u64::from((number as f32).to_bits());
                let fields = fields.u32(clamp(self.below(3))).u32(clamp(self.below(3)));
                fields.u32(clamp(self.below(9)))
            }
            "CUDA_RESOURCE_VIEW_DESC" => {
                let format = 1 + self.below(35) as u64;
                let fields = none.u32(self.pick(&[format], &[0, 35]));
                let fields = fields.u64(self.pick(&[64], &[0, 16]));
                let fields = fields.u64(self.pick(&[16, 16, 0], &[17]));
                let mut fields = fields.u64(self.pick(&[0, 0, 4], &[17]));
                // The first and the last of the levels, and of the layers.
                for _ in 0..4 {
                    fields = fields.u32(self.pick(&[0], &[1, 2]));
                }
                fields
            }
            "CUDA_KERNEL_NODE_PARAMS" => self.kernel(none, true),
            "CUDA_KERNEL_NODE_PARAMS_v1" => self.kernel(none, false),
            "CUDA_MEMSET_NODE_PARAMS" => self.memset(none),
            "CUDA_HOST_NODE_PARAMS" => self.host_function(none),
            "CUDA_BATCH_MEM_OP_NODE_PARAMS" => self.batch(none),
            "CUstreamBatchMemOpParams" => {
                return Some(self.operations());
            }
            "CUDA_EXT_SEM_SIGNAL_NODE_PARAMS" | "CUDA_EXT_SEM_WAIT_NODE_PARAMS" => {
                self.semaphores(none)
            }
            "CUDA_MEM_ALLOC_NODE_PARAMS" => self.allocation(none),
            "CUDA_EXTERNAL_MEMORY_HANDLE_DESC" => {
                let kind = self.pick(&[1, 9], &[0, 2, 3, 4, 5, 6, 7, 8, 10, 11]);
                let fields = none.u32(kind).u32(0).u64(self.descriptor()).u64(0);
                let size = self.pick(&[65_536], &[0, 4096, 65_537]);
                fields.u64(size).u32(self.pick(&[0, 1], &[2]))
            }
            "CUDA_EXTERNAL_MEMORY_BUFFER_DESC" => {
                let offset = self.pick(&[0, 4096], &[1, 65_536, u64::MAX]);
                let size = self.pick(&[4096, 16_384], &[0, 1, u64::MAX]);
                none.u64(offset).u64(size).u32(self.pick(&[0], &[1]))
            }
            "CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC" => {
                let offset = self.pick(&[0], &[1, 65_536, u64::MAX]);
                let fields = self.array(none.u64(offset));
                // The descriptor of the array ends with padding.
                fields.u32(0).u32(self.pick(&[1, 2], &[0, 9]))
            }
            "CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC" => {
                let kind = self.pick(&[TIMELINE], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11]);
                // A stream could wait for ever for a binary semaphore.
                let file = if kind == TIMELINE {
                    self.descriptor()
                } else {
                    u64::from(u32::MAX)
                };
                none.u32(kind)
                    .u32(0)
                    .u64(file)
                    .u64(0)
                    .u32(self.pick(&[0], &[1, 2]))
            }
            "CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS" | "CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS" => {
                return Some(self.values(4, name.contains("WAIT")));
            }
            "CUmemPoolProps" => self.pool(none),
            "CUmemAllocationProp" => {
                let fields = none.u32(1).u32(self.pick(&[1, 0], &[2, 8]));
                let fields = self.location(fields);
                fields.u64(0).u64(0)
            }
            "CUmemLocation" => self.location(none),
            "CUmemAccessDesc" => {
                let mut fields = none;
                for _ in 0..4 {
                    fields = self.location(fields).u32(self.pick(&[3, 3, 1], &[0, 2]));
                }
                fields
            }
            "CUlaunchConfig" => {
                let mut fields = self.shape(none);
                let stream = self.handle("CUstream").addr() as u64;
                let mut attributes = Vec::new();
                for _ in 0..4 {
                    // The size of a cluster, the priority, and others.
                    let random = self.below(20) as u64;
                    attributes.push(self.pick(&[4, 8], &[random]));
                    attributes.extend(self.attribute());
                }
                let place = self.place(&attributes).expose_provenance() as u64;
                fields = fields.u64(stream).u64(place);
                fields.u32(self.pick(&[0, 0, 1], &[2, 3]))
            }
            "CUmemcpyAttributes" => {
                let fields = none.u32(self.pick(&[1, 2, 3], &[0, 4]));
                let fields = self.location(fields);
                self.location(fields).u32(self.pick(&[0], &[1, 2]))
            }
            "CUDA_MEMCPY3D_BATCH_OP" => {
                let mut fields = none;
                for _ in 0..2 {
                    fields = self.operand(fields);
                }
                let [width, height, depth] = self.extent();
                let fields = fields.u64(width / 4).u64(height).u64(depth);
                fields.u32(self.pick(&[1, 2, 3], &[0, 4])).u32(0)
            }
            "CUpointer_attribute" | "CUmem_range_attribute" => none
                .u32(self.pick(&[1, 2], &[0]))
                .u32(self.pick(&[2, 3], &[99]))
                .u32(self.pick(&[3, 1], &[0])),
            "CUgraphEdgeData" if self.plain => none,
            "CUkernelNodeAttrValue" | "CUstreamAttrValue" => return Some(self.attribute()),
            "CUctxCreateParams" => none.u64(0).u32(0).u64(0),
            "CUDA_GRAPH_INSTANTIATE_PARAMS" => {
                let fields = none.u64(self.pick(&[0, 0, 1, 8], &[2, 4, 16]));
                let stream = self.handle("CUstream").addr() as u64;
                fields.u64(stream).u64(0).u64(0)
            }
            "CUgraphNodeParams" => self.node(none),
            _ => return None,
        };
        Some(fields.0)
    }

    /// Makes the resource of a texture or a surface.
    fn resource(&mut self, none: Fields) -> Fields {
        let kind = if self.function.contains("Surf") {
            self.pick(&[0], &[1, 2, 3, 4])
        } else {
            self.pick(&[0, 1, 2, 3], &[4])
        };
        let fields = none.u32(kind);
        match kind {
            0 => fields.u64(self.handle("CUarray").addr() as u64),
            1 => fields.u64(self.handle("CUmipmappedArray").addr() as u64),
            _ => {
                let fields = fields.u64(self.address());
                let fields = self.elements(fields);
                let width = if kind == 2 { 1024 } else { 16 };
                let extreme = self.choose(EXTREMES);
                let fields = fields.u64(self.pick(&[width], &[0, 33, extreme]));
                let fields = fields.u64(self.pick(&[16, 1], &[0, extreme]));
                fields.u64(self.pick(&[256], &[32, 100, extreme]))
            }
        }
    }

    /// Makes the format of elements, and the number of channels.
    fn elements(&mut self, fields: Fields) -> Fields {
        let format = self.pick(&[1, 2, 3, 8, 9, 10, 0x10, 0x20], &[0, 4]);
        fields.u32(format).u32(self.pick(&[1, 2, 4], &[0, 3]))
    }

    /// Makes the descriptor of an array of three dimensions.
    fn array(&mut self, fields: Fields) -> Fields {
        let extreme = self.choose(EXTREMES);
        let fields = fields.u64(self.pick(&[64], &[0, 1, extreme]));
        let fields = fields.u64(self.pick(&[16, 16, 0], &[1, extreme]));
        // Only an array with a height has a depth.
        let fields = fields.u64(self.pick(&[0, 0, 4], &[1, 8, extreme]));
        let fields = self.elements(fields);
        // An array for surfaces, or for gathers.
        fields.u32(self.pick(&[2, 2, 0], &[1, 3, 4, 5, 6, 7, 8]))
    }

    /// Makes the width in bytes, the height and the depth of a copy; small ones fit everywhere.
    fn extent(&mut self) -> [u64; 3] {
        let (width, height) = (self.below(257) as u64, self.below(9) as u64);
        [
            self.pick(&[16, 32, 64], &[0, width]),
            self.pick(&[1, 1, 2], &[0, height]),
            self.pick(&[1], &[0, 2, 3]),
        ]
    }

    /// Makes one side of a copy in a batch: memory, or an array.
    fn operand(&mut self, fields: Fields) -> Fields {
        match self.pick(&[1, 1, 2], &[0, 3]) {
            2 => {
                let fields = fields.u32(2).u64(self.handle("CUarray").addr() as u64);
                fields.u64(0).u64(0).u64(0)
            }
            kind => {
                let fields = fields.u32(kind).u64(self.side_address());
                let fields = fields.u64(self.pick(&[64], &[0, 16]));
                let fields = fields.u64(self.pick(&[16], &[0, 1]));
                self.location(fields)
            }
        }
    }

    /// Makes one side of a two- or three-dimensional copy.
    fn side(&mut self, fields: Fields, deep: bool, peer: bool) -> Fields {
        let (x, y, z) = (self.below(65), self.below(9), self.below(4));
        let mut fields = fields.u64(self.pick(&[0], &[x as u64]));
        fields = fields.u64(self.pick(&[0], &[y as u64]));
        if deep {
            fields = fields.u64(self.pick(&[0], &[z as u64]));
            fields = fields.u64(self.pick(&[0], &[0, 0, 1]));
        }
        let host = self.host().expose_provenance() as u64;
        fields = fields.u32(self.pick(&[1, 2, 3, 4], &[0])).u64(host);
        fields = fields.u64(self.side_address());
        fields = fields.u64(self.handle("CUarray").addr() as u64);
        if deep {
            let context = self.handle("CUcontext").addr() as u64;
            fields = fields.u64(if peer { context } else { 0 });
        }
        fields = fields.u64(self.pick(&[256, 512], &[0, 100, 1024]));
        if deep {
            let height = self.below(17) as u64;
            fields = fields.u64(self.pick(&[16], &[height]));
        }
        fields
    }

    fn shape(&mut self, mut fields: Fields) -> Fields {
        for _ in 0..3 {
            fields = fields.u32(self.pick(&[1, 1, 2, 3], &[32, 0]));
        }
        let extreme = self.choose(EXTREMES) & 0xFFFF_FFFF;
        for _ in 0..3 {
            fields = fields.u32(self.pick(&[1, 1, 2, 3], &[32, 0, extreme]));
        }
        fields.u32(self.pick(&[0, 0, 64, 1024], &[1 << 20, extreme]))
    }

    fn kernel(&mut self, fields: Fields, new: bool) -> Fields {
        let function = self.handle("CUfunction").addr() as u64;
        let fields = self.shape(fields.u64(function));
        let params = self.pointers("kernelParams").expose_provenance() as u64;
        let fields = fields.u64(params).u64(0);
        if !new {
            return fields;
        }
        let (kernel, context) = if self.plain || self.below(4) != 0 {
            (0, 0)
        } else {
            (
                self.handle("CUkernel").addr() as u64,
                self.handle("CUcontext").addr() as u64,
            )
        };
        fields.u64(kernel).u64(context)
    }

    fn memset(&mut self, fields: Fields) -> Fields {
        let fields = fields.u64(self.address());
        let extreme = self.choose(EXTREMES);
        let fields = fields.u64(self.pick(&[256, 512], &[0, extreme]));
        let fields = fields.u32(self.below(1 << 8) as u64);
        let fields = fields.u32(self.pick(&[1, 2, 4], &[3]));
        let fields = fields.u64(self.pick(&[1, 16, 64], &[0, extreme]));
        fields.u64(self.pick(&[1, 1, 2], &[0, extreme]))
    }

    fn host_function(&mut self, fields: Fields) -> Fields {
        let function = crate::calls::host_function as *const ();
        let data = self.host().expose_provenance() as u64;
        fields.u64(function.expose_provenance() as u64).u64(data)
    }

    fn batch(&mut self, fields: Fields) -> Fields {
        let context = self.handle("CUcontext").addr() as u64;
        let fields = fields.u64(context).u32(self.pick(&[1, 2], &[0, 3]));
        let words = self.operations();
        let place = self.place(&words).expose_provenance() as u64;
        fields.u64(place).u32(0)
    }

    /// Makes writes and barriers only, because a wait may last forever, as on hardware.
    fn operations(&mut self) -> Vec<u64> {
        let mut words = Vec::new();
        for _ in 0..8 {
            let operation = self.pick(&[2, 5, 6], &[3, 99]);
            words.extend([
                operation,
                self.address(),
                self.below(100) as u64,
                self.below(2) as u64,
                0,
                0,
            ]);
        }
        words
    }

    /// Makes the parameters of a node of external semaphores: the semaphores, a structure of 18
    /// words for each, and their number.
    fn semaphores(&mut self, fields: Fields) -> Fields {
        let count = self.pick(&[1, 2], &[0, 3, 4]) as usize;
        let handles: Vec<u64> = (0..count)
            .map(|_| self.handle("CUexternalSemaphore").addr() as u64)
            .collect();
        let waits = self.function.contains("Wait") || self.graphs.node_type == Some(9);
        let params = self.values(count, waits);
        let handles = self.place(&handles).expose_provenance() as u64;
        let params = self.place(&params).expose_provenance() as u64;
        fields.u64(handles).u64(params).u32(count as u64)
    }

    /// Makes the values of this number of semaphores, for signals or waits. A wait for 0 is always
    /// over; another could last forever.
    fn values(&mut self, count: usize, waits: bool) -> Vec<u64> {
        let end = if waits { 1 } else { 8 };
        (0..count)
            .flat_map(|_| [&[self.below(end) as u64][..], &[0; 17]].concat())
            .collect()
    }

    fn location(&mut self, fields: Fields) -> Fields {
        let sort = self.pick(&[1], &[2, 3, 0]);
        fields.u32(sort).u32(self.pick(&[0], &[1, 2]))
    }

    fn pool(&mut self, fields: Fields) -> Fields {
        let shared = self.function == "cuMemPoolCreate";
        let kind = if shared { self.pick(&[1, 0], &[2]) } else { 0 };
        let fields = fields.u32(1).u32(kind);
        let mut fields = self.location(fields).u64(0);
        fields = fields.u64(self.pick(&[0], &[1 << 20, u64::MAX]));
        for _ in 0..7 {
            fields = fields.u64(0);
        }
        fields
    }

    fn allocation(&mut self, fields: Fields) -> Fields {
        let fields = self.pool(fields);
        let access = self.structure("CUmemAccessDesc").unwrap_or_default();
        let place = self.place(&access).expose_provenance() as u64;
        let fields = fields.u64(place).u64(self.pick(&[0, 1], &[2]));
        let extreme = self.choose(EXTREMES);
        fields.u64(self.pick(&[256, 4096], &[0, extreme])).u64(0)
    }

    /// Makes the value of a launch attribute: small numbers, or a handle first.
    fn attribute(&mut self) -> Vec<u64> {
        if self.plain {
            // The size of a cluster of one block; for other attributes, numbers.
            return vec![1 | 1 << 32, 1, 0, 0, 0, 0, 0, 0];
        }
        let first = match self.below(5) {
            4 => self.choose(EXTREMES),
            0 => self.handle("CUevent").addr() as u64,
            1 => self.address(),
            2 => self.below(4) as u64 | (1 << 32),
            _ => self.below(8) as u64,
        };
        vec![first, self.below(4) as u64, 0, 0, 0, 0, 0, 0]
    }

    /// Makes the parameters of a node of any kind.
    fn node(&mut self, fields: Fields) -> Fields {
        let random = self.below(15) as u32;
        let sort = match self.graphs.node_type {
            Some(sort) if self.plain => sort,
            _ => random,
        };
        self.graphs.node_type = Some(sort);
        let fields = fields.u32(u64::from(sort)).u32(0).u32(0).u32(0);
        match sort {
            0 => self.kernel(fields, true),
            1 => {
                // The flags, and the context of the copy.
                let context = self.handle("CUcontext").addr() as u64;
                let fields = fields.u64(0).u64(context);
                let fields = self.side(fields, true, false);
                let fields = self.side(fields, true, false);
                let [width, height, depth] = self.extent();
                fields.u64(width).u64(height).u64(depth)
            }
            2 => {
                let fields = self.memset(fields);
                let context = self.handle("CUcontext").addr() as u64;
                fields.u64(context)
            }
            3 => self.host_function(fields),
            4 => fields.u64(self.handle("CUgraph").addr() as u64),
            6 | 7 => fields.u64(self.handle("CUevent").addr() as u64),
            8 | 9 => self.semaphores(fields),
            10 => self.allocation(fields),
            11 => fields.u64(self.address_of(&[Memory::Graph])),
            12 => self.batch(fields),
            13 => {
                let handle = self.number("CUgraphConditionalHandle", "handle");
                // Only IF and SWITCH, because a loop may last forever, as on hardware.
                let fields = fields.u64(handle).u32(self.pick(&[0, 2], &[]));
                let fields = fields.u32(self.pick(&[1], &[0, 2]));
                let context = self.handle("CUcontext").addr() as u64;
                fields.u64(0).u64(context)
            }
            _ => fields,
        }
    }
}
