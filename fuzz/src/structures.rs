//! Makes structures of `cuda.h` as lists of words.

use crate::maker::Maker;

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
        let none = Fields::default();
        let fields = match name {
            "CUDA_MEMCPY2D" => {
                let fields = self.side(none, false, false);
                let fields = self.side(fields, false, false);
                let (width, height) = (self.below(257) as u64, self.below(9) as u64);
                fields.u64(width).u64(height)
            }
            "CUDA_MEMCPY3D" | "CUDA_MEMCPY3D_PEER" => {
                let peer = name.ends_with("PEER");
                let fields = self.side(none, true, peer);
                let fields = self.side(fields, true, peer);
                let (width, height) = (self.below(257) as u64, self.below(9) as u64);
                fields.u64(width).u64(height).u64(self.below(4) as u64)
            }
            "CUDA_ARRAY_DESCRIPTOR" => {
                let (width, height) = (self.below(65) as u64, self.below(17) as u64);
                let fields = none.u64(width).u64(height);
                let format = [1, 2, 3, 8, 9, 10, 0x10, 0x20][self.below(8)];
                fields.u32(format).u32(self.below(5) as u64)
            }
            "CUDA_ARRAY3D_DESCRIPTOR" => {
                let (width, height) = (self.below(65) as u64, self.below(17) as u64);
                let fields = none.u64(width).u64(height).u64(self.below(9) as u64);
                let format = [1, 2, 3, 8, 9, 10, 0x10, 0x20][self.below(8)];
                let fields = fields.u32(format).u32(self.below(5) as u64);
                fields.u32(self.below(8) as u64)
            }
            "CUDA_RESOURCE_DESC" => self.resource(none),
            "CUDA_TEXTURE_DESC" => {
                let mut fields = none;
                for end in [5, 5, 5, 3] {
                    fields = fields.u32(self.below(end) as u64);
                }
                let flags = [0, 1, 2, 3, 0x12, 0x22, 0x42, 4][self.below(8)];
                let fields = fields.u32(flags).u32(self.below(3) as u64);
                let fields = fields.u32(self.below(2) as u64);
                let clamp = |number: usize| u64::from((number as f32).to_bits());
                let fields = fields.u32(clamp(self.below(3))).u32(clamp(self.below(3)));
                fields.u32(clamp(self.below(9)))
            }
            "CUDA_RESOURCE_VIEW_DESC" => {
                let format = [0, 1, 3, 22, 23, 34, 35][self.below(7)];
                let mut fields = none.u32(format);
                for _ in 0..3 {
                    fields = fields.u64(self.below(17) as u64);
                }
                for _ in 0..4 {
                    fields = fields.u32(self.below(3) as u64);
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
                let fields = none.u32(self.below(12) as u64).u32(0);
                let fields = fields.u64(self.descriptor()).u64(0);
                let size = [0, 4096, 65_536, 65_537][self.below(4)];
                fields.u64(size).u32(self.below(3) as u64)
            }
            // A stream could wait for ever for a semaphore that was imported.
            "CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC" => {
                let fields = none.u32(self.below(12) as u64).u32(0);
                fields
                    .u64(u64::from(u32::MAX))
                    .u64(0)
                    .u32(self.below(3) as u64)
            }
            "CUmemPoolProps" => self.pool(none),
            "CUmemAllocationProp" => {
                let fields = none.u32(1).u32(self.below(3) as u64);
                let fields = self.location(fields);
                fields.u64(0).u64(0)
            }
            "CUmemLocation" => self.location(none),
            "CUmemAccessDesc" => {
                let mut fields = none;
                for _ in 0..4 {
                    fields = self.location(fields).u32([0, 1, 3, 2][self.below(4)]);
                }
                fields
            }
            "CUlaunchConfig" => {
                let mut fields = self.shape(none);
                let stream = self.handle("CUstream").addr() as u64;
                let mut attributes = Vec::new();
                for _ in 0..4 {
                    attributes.push(self.below(20) as u64);
                    attributes.extend(self.attribute());
                }
                let place = self.place(&attributes).expose_provenance() as u64;
                fields = fields.u64(stream).u64(place);
                fields.u32(self.below(4) as u64)
            }
            "CUkernelNodeAttrValue" | "CUstreamAttrValue" => return Some(self.attribute()),
            "CUctxCreateParams" => none.u64(0).u32(0).u64(0),
            "CUDA_GRAPH_INSTANTIATE_PARAMS" => {
                let fields = none.u64(1 << self.below(5));
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
        let kind = self.below(5) as u64;
        let fields = none.u32(kind);
        let format = [1, 2, 3, 8, 9, 10, 0x10, 0x20][self.below(8)];
        let fields = match kind {
            0 => fields.u64(self.handle("CUarray").addr() as u64),
            1 => fields.u64(self.handle("CUmipmappedArray").addr() as u64),
            _ => {
                let fields = fields.u64(self.address()).u32(format);
                fields.u32(self.below(5) as u64)
            }
        };
        match kind {
            2 => fields.u64(self.below(8192) as u64),
            3 => {
                let fields = fields.u64(self.below(65) as u64).u64(self.below(17) as u64);
                fields.u64([32, 64, 512, 100][self.below(4)])
            }
            _ => fields,
        }
    }

    /// Makes one side of a two- or three-dimensional copy.
    fn side(&mut self, fields: Fields, deep: bool, peer: bool) -> Fields {
        let mut fields = fields.u64(self.below(65) as u64).u64(self.below(9) as u64);
        if deep {
            fields = fields.u64(self.below(4) as u64);
            fields = fields.u64(if self.below(16) == 15 { 1 } else { 0 });
        }
        let host = self.host().expose_provenance() as u64;
        fields = fields.u32(self.below(5) as u64).u64(host);
        fields = fields.u64(self.side_address());
        fields = fields.u64(self.handle("CUarray").addr() as u64);
        if deep {
            let context = self.handle("CUcontext").addr() as u64;
            fields = fields.u64(if peer { context } else { 0 });
        }
        fields = fields.u64([0, 256, 512, 100, 1024][self.below(5)]);
        if deep {
            fields = fields.u64(self.below(17) as u64);
        }
        fields
    }

    fn shape(&mut self, mut fields: Fields) -> Fields {
        for _ in 0..6 {
            fields = fields.u32([1, 1, 2, 3, 32, 0][self.below(6)]);
        }
        fields.u32([0, 0, 64, 1024, 1 << 20][self.below(5)])
    }

    fn kernel(&mut self, fields: Fields, new: bool) -> Fields {
        let function = self.handle("CUfunction").addr() as u64;
        let fields = self.shape(fields.u64(function));
        let params = self.pointers("kernelParams").expose_provenance() as u64;
        let fields = fields.u64(params).u64(0);
        if !new {
            return fields;
        }
        let kernel = if self.below(4) == 0 {
            self.handle("CUkernel").addr() as u64
        } else {
            0
        };
        let context = if self.below(4) == 0 {
            self.handle("CUcontext").addr() as u64
        } else {
            0
        };
        fields.u64(kernel).u64(context)
    }

    fn memset(&mut self, fields: Fields) -> Fields {
        let fields = fields.u64(self.address()).u64([0, 256, 512][self.below(3)]);
        let fields = fields.u32(self.below(1 << 16) as u64);
        let fields = fields.u32([1, 2, 4, 3][self.below(4)]);
        fields.u64(self.below(513) as u64).u64(self.below(4) as u64)
    }

    fn host_function(&mut self, fields: Fields) -> Fields {
        let function = crate::calls::host_function as *const ();
        let data = self.host().expose_provenance() as u64;
        fields.u64(function.expose_provenance() as u64).u64(data)
    }

    fn batch(&mut self, fields: Fields) -> Fields {
        let context = self.handle("CUcontext").addr() as u64;
        let fields = fields.u64(context).u32(self.below(4) as u64);
        let words = self.operations();
        let place = self.place(&words).expose_provenance() as u64;
        fields.u64(place).u32(0)
    }

    /// Makes writes and barriers only, because a wait may last forever, as on hardware.
    fn operations(&mut self) -> Vec<u64> {
        let mut words = Vec::new();
        for _ in 0..8 {
            let operation = [2, 5, 6, 3, 99][self.below(5)];
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
        let count = self.below(5);
        let handles: Vec<u64> = (0..count)
            .map(|_| self.handle("CUexternalSemaphore").addr() as u64)
            .collect();
        let params: Vec<u64> = (0..count)
            .flat_map(|_| [&[self.below(8) as u64][..], &[0; 17]].concat())
            .collect();
        let handles = self.place(&handles).expose_provenance() as u64;
        let params = self.place(&params).expose_provenance() as u64;
        fields.u64(handles).u64(params).u32(count as u64)
    }

    fn location(&mut self, fields: Fields) -> Fields {
        let sort = [1, 1, 1, 2, 3, 0][self.below(6)];
        fields.u32(sort).u32(self.below(3) as u64)
    }

    fn pool(&mut self, fields: Fields) -> Fields {
        let fields = fields.u32(1).u32(0);
        let mut fields = self.location(fields).u64(0);
        fields = fields.u64([0, 0, 1 << 20][self.below(3)]);
        for _ in 0..7 {
            fields = fields.u64(0);
        }
        fields
    }

    fn allocation(&mut self, fields: Fields) -> Fields {
        let fields = self.pool(fields);
        let access = self.structure("CUmemAccessDesc").unwrap_or_default();
        let place = self.place(&access).expose_provenance() as u64;
        let fields = fields.u64(place).u64(self.below(3) as u64);
        fields.u64([256, 4096, 0, 100_000][self.below(4)]).u64(0)
    }

    /// Makes the value of a launch attribute: small numbers, or a handle first.
    fn attribute(&mut self) -> Vec<u64> {
        let first = match self.below(4) {
            0 => self.handle("CUevent").addr() as u64,
            1 => self.address(),
            2 => self.below(4) as u64 | (1 << 32),
            _ => self.below(8) as u64,
        };
        vec![first, self.below(4) as u64, 0, 0, 0, 0, 0, 0]
    }

    /// Makes the parameters of a node of any kind.
    fn node(&mut self, fields: Fields) -> Fields {
        let sort = self.below(15) as u64;
        let fields = fields.u32(sort).u32(0).u32(0).u32(0);
        match sort {
            0 => self.kernel(fields, true),
            1 => {
                // The flags, and the context of the copy.
                let context = self.handle("CUcontext").addr() as u64;
                let fields = fields.u64(0).u64(context);
                let fields = self.side(fields, true, false);
                let fields = self.side(fields, true, false);
                let (width, height) = (self.below(257) as u64, self.below(9) as u64);
                fields.u64(width).u64(height).u64(1)
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
            11 => fields.u64(self.address()),
            12 => self.batch(fields),
            13 => {
                let handle = self.number("CUgraphConditionalHandle", "handle");
                // Only IF and SWITCH, because a loop may last forever, as on hardware.
                let fields = fields.u64(handle).u32([0, 2][self.below(2)]);
                let fields = fields.u32(self.below(3) as u64);
                let context = self.handle("CUcontext").addr() as u64;
                fields.u64(0).u64(context)
            }
            _ => fields,
        }
    }
}
